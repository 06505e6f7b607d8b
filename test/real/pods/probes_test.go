//go:build real

package pods

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
	"berth/test/real/kit"
)

func TestReadinessFollowsTheProbe(t *testing.T) {
	t.Parallel()
	// given one pod per kind of probe, and one whose probe is not answered
	n := kit.NewNode(t)
	n.AddImage("grpc.tar", kit.ProgramArchive(t, "localhost/grpc:1", "workload/grpc"))
	probed := func(name string, what v1.ProbeHandler) *v1.Pod {
		p := kit.NewPod(name, "moody", ":8080")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		p.Spec.Containers[0].ReadinessProbe = kit.ProbeEachSecond(what)
		return p
	}
	named := kit.HTTPGet(0)
	named.HTTPGet.Port = intstr.FromString("web")
	grpc := probed("grpc", v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9090}})
	sick := probed("sick", v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9090, Service: new("sick")}})
	for _, p := range []*v1.Pod{grpc, sick} {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = "localhost/grpc:1", []string{":9090"}
	}
	n.Apply("pods.yaml", probed("http", named), probed("exec", kit.ExecGet(8080)), probed("tcp", v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}),
		probed("nobody", kit.HTTPGet(8081)), grpc, sick)
	n.Start()

	// then those that are answered are ready, and the others say why not
	for _, name := range []string{"http", "exec", "tcp", "grpc"} {
		n.WaitPod(name, "is ready", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.IsReady(p)) })
	}
	for name, says := range map[string]string{"nobody": "connection refused", "sick": "NOT_SERVING"} {
		p := n.WaitPod(name, "runs", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(isStarted(p)) })
		n.Wait("the event about "+name, kit.StartTimeout, func() string { // before the server listens, the connection is refused
			for _, e := range n.Events(p) {
				if e.Reason == event.Unhealthy && strings.HasPrefix(e.Message, "Readiness probe failed: ") && strings.Contains(e.Message, says) {
					return ""
				}
			}
			return says
		})
		if kit.IsReady(n.Pod(name)) {
			t.Errorf("%s is ready", name)
		}
	}

	// when one falls ill and gets well again, then its readiness follows
	before := n.Pod("http")
	for _, mood := range []string{"sick", "well"} {
		if _, err := n.Get(before.Status.PodIP+":8080", "/"+mood); err != nil {
			t.Fatal(err)
		}
		n.WaitPod("http", "is "+mood, 10*time.Second, func(p v1.Pod) string { return kit.MissingUnless(kit.IsReady(p) == (mood == "well")) })
	}

	// when the agent is killed, then the next one knows that they are ready: no status flips
	n.KillAgent()
	n.Start()
	seen := n.Watch()
	n.WaitPod("http", "is there", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.IsReady(p)) })
	for _, p := range seen.States("http") {
		if isStarted(p) && !kit.IsReady(p) {
			t.Errorf("it was not ready for a moment: %s", kit.Summary(p))
		}
	}
	if after := n.Pod("http"); kit.AppStatus(after).ContainerID != kit.AppStatus(before).ContainerID {
		t.Error("it was restarted")
	}
}

// isStarted reports whether the main container runs, ready or not.
func isStarted(p v1.Pod) bool { return kit.AppStatus(p).State.Running != nil }

func TestAContainerThatFailsItsLivenessProbeIsRestarted(t *testing.T) {
	t.Parallel()
	// given pods that do not end at SIGTERM, with a long grace period, which their probes shorten
	n := kit.NewNode(t)
	stubborn := kit.NewPod("stubborn", "cling", "app")
	stubborn.Spec.TerminationGracePeriodSeconds = new(int64(15)) // 'down' has to wait for it at the end
	probe := kit.ProbeEachSecond(kit.HTTPGet(1))                 // no server listens there
	probe.InitialDelaySeconds, probe.TerminationGracePeriodSeconds = 2, new(int64(1))
	stubborn.Spec.Containers[0].LivenessProbe = probe
	never := kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("never", "moody", ":8080"))
	never.Spec.Containers[0].LivenessProbe = kit.ProbeEachSecond(kit.ExecGet(8080))
	never.Spec.Containers[0].LivenessProbe.InitialDelaySeconds = 2
	n.Apply("pods.yaml", stubborn, never)
	n.Start()

	// then the first is killed and comes again
	p := n.WaitPod("stubborn", "is restarted", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.AppStatus(p).RestartCount == 1) })
	if end := kit.AppStatus(p).LastTerminationState.Terminated; end == nil || end.ExitCode != 137 {
		t.Errorf("it ended with %+v", end)
	}
	if e := n.WaitEvent(p, event.Killing); e.Message != "Container app failed liveness probe, will be restarted" {
		t.Errorf("the event says %q", e.Message)
	}

	// when the second falls ill, then it is over
	p = n.WaitRunning("never")["never"]
	if _, err := n.Get(p.Status.PodIP+":8080", "/sick"); err != nil {
		t.Fatal(err)
	}
	n.WaitPod("never", "is over", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed)
	})
}

func TestWhatFollowsASidecarWaitsForItsStartupProbe(t *testing.T) {
	t.Parallel()
	// given a sidecar that takes its time to be up, before an init container and a main one
	n := kit.NewNode(t)
	p := kit.NewPod("web", "activity", "app", "0s")
	slow := kit.Sidecar(kit.NewContainer("slow", "moody", ":8080", "3s"))
	slow.StartupProbe = kit.ProbeEachSecond(kit.HTTPGet(8080))
	slow.StartupProbe.FailureThreshold = 30
	p.Spec.InitContainers = []v1.Container{slow, kit.NewContainer("setup", "activity", "setup", "0s", "10ms")}
	n.Apply("web.yaml", p)
	n.Start()

	// then they wait until it is
	got := n.WaitRunning("web")["web"]
	var began, upAt time.Time
	for _, c := range got.Status.InitContainerStatuses {
		if c.Name == "slow" {
			began = c.State.Running.StartedAt.Time
			if c.Started == nil || !*c.Started {
				t.Errorf("slow is not started: %+v", c)
			}
		}
	}
	upAt = began.Add(3 * time.Second)
	log := n.OpenActivityLogs(got).WaitInOrder("setup start", "setup end", "app start")
	if at := log.At("setup", "start"); at.Before(upAt) {
		t.Errorf("what follows began %s after the sidecar, which was up after 3s", at.Sub(began))
	}

	// when the agent is killed, then it is not asked for its start again
	n.KillAgent()
	n.Start()
	again := n.WaitRunning("web")["web"]
	if again.Status.InitContainerStatuses[0].RestartCount != 0 || kit.AppStatus(again).ContainerID != kit.AppStatus(got).ContainerID {
		t.Errorf("something was restarted: %s", kit.Summary(again))
	}
}

func TestCommandsThatHangInOnePodDoNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	// given a pod with many containers, all of whose commands hang, and another one
	n := kit.NewNode(t)
	hangs := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "sleep"}}}
	stuck := kit.NewPod("stuck")
	stuck.Spec.Containers = nil
	for i := range 8 {
		c := kit.NewContainer(fmt.Sprint("app", i), "sleep")
		c.ReadinessProbe, c.LivenessProbe = kit.ProbeEachSecond(hangs), kit.ProbeEachSecond(hangs)
		c.ReadinessProbe.TimeoutSeconds, c.LivenessProbe.TimeoutSeconds = 300, 300
		stuck.Spec.Containers = append(stuck.Spec.Containers, c)
	}
	n.Apply("stuck.yaml", stuck)
	n.Start()
	n.WaitPod("stuck", "runs", kit.StartTimeout, func(p v1.Pod) string {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				return c.Name
			}
		}
		return kit.MissingUnless(len(p.Status.ContainerStatuses) == 8)
	})

	// when a pod comes whose command answers, then it is ready soon after it runs
	web := kit.NewPod("web", "moody", ":8080")
	web.Spec.Containers[0].ReadinessProbe = kit.ProbeEachSecond(kit.ExecGet(8080))
	n.Apply("web.yaml", web)
	n.WaitPod("web", "runs", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(isStarted(p)) })
	n.WaitPod("web", "is ready", 10*time.Second, func(p v1.Pod) string { return kit.MissingUnless(kit.IsReady(p)) })
}

func TestWhatProbesFoundCanBeSeenWhileAContainerWaitsForItsRestart(t *testing.T) {
	t.Parallel()
	// given a pod that fails its liveness probe again and again, and one that is asked by a program that is missing
	n := kit.NewNode(t)
	sick := kit.NewPod("sick", "sleep")
	sick.Spec.TerminationGracePeriodSeconds = new(int64(1))
	sick.Spec.Containers[0].LivenessProbe = kit.ProbeEachSecond(kit.HTTPGet(1))
	odd := kit.NewPod("odd", "sleep")
	odd.Spec.Containers[0].ReadinessProbe = kit.ProbeEachSecond(v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/nope"}}})
	n.Apply("pods.yaml", sick, odd)
	n.Start()

	// then it can be seen why, even while nothing of it runs
	n.WaitPod("sick", "waits for its restart", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.AppStatus(p).State.Waiting != nil && kit.AppStatus(p).State.Waiting.Reason == pod.ReasonCrashLoopBackOff)
	})
	n.Wait("what its probe found", 5*time.Second, func() string {
		text := n.MustBerth("describe", "pod", "sick")
		return kit.MissingUnless(regexp.MustCompile(`(?m)^  app +Liveness +failed .*before its restart: .*connection refused`).MatchString(text))
	})

	// and what goes wrong in the same way is one event
	p := n.WaitPod("odd", "runs", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(isStarted(p)) })
	n.Wait("the same to go wrong three times", kit.StartTimeout, func() string {
		e := n.WaitEvent(p, event.Unhealthy)
		return kit.MissingUnless(e.Count >= 3 && strings.Contains(e.Message, "/nope"))
	})
	messages := map[string]bool{}
	for _, e := range n.Events(p) {
		if e.Reason == event.Unhealthy {
			messages[e.Message] = true
		}
	}
	if len(messages) != 1 {
		t.Errorf("it is reported in %d ways: %v", len(messages), messages)
	}
}
