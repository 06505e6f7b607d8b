//go:build real

package real

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
)

// every asks once a second, and believes the first answer.
func every(what v1.ProbeHandler) *v1.Probe {
	return &v1.Probe{ProbeHandler: what, PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 5}
}

func httpGet(port int32) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)}}
}

func execAsk(port int32) v1.ProbeHandler {
	return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "ask", fmt.Sprintf("http://127.0.0.1:%d/", port)}}}
}

func ready(p v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func TestReadinessFollowsTheProbe(t *testing.T) {
	t.Parallel()
	// given one pod per kind of probe, and one that nobody answers
	n := newNode(t)
	n.drop("grpc.tar", archiveOf(t, "localhost/grpc:1", "workload/grpc"))
	probed := func(name string, what v1.ProbeHandler) *v1.Pod {
		p := newPod(name, "moody", ":8080")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		p.Spec.Containers[0].ReadinessProbe = every(what)
		return p
	}
	named := httpGet(0)
	named.HTTPGet.Port = intstr.FromString("web")
	grpc := probed("grpc", v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9090}})
	sick := probed("sick", v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9090, Service: new("sick")}})
	for _, p := range []*v1.Pod{grpc, sick} {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = "localhost/grpc:1", []string{":9090"}
	}
	n.apply("pods.yaml", probed("http", named), probed("exec", execAsk(8080)), probed("tcp", v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}),
		probed("nobody", httpGet(8081)), grpc, sick)
	n.start()

	// then those that are answered are ready, and the others say why not
	for _, name := range []string{"http", "exec", "tcp", "grpc"} {
		n.waitPod(name, "is ready", startLimit, func(p v1.Pod) string { return boolText(ready(p)) })
	}
	for name, says := range map[string]string{"nobody": "connection refused", "sick": "NOT_SERVING"} {
		p := n.waitPod(name, "runs", startLimit, func(p v1.Pod) string { return boolText(isStarted(p)) })
		n.wait("the event about "+name, startLimit, func() string { // before it listens, nobody does
			for _, e := range n.eventsOf(p) {
				if e.Reason == event.Unhealthy && strings.HasPrefix(e.Message, "Readiness probe failed: ") && strings.Contains(e.Message, says) {
					return ""
				}
			}
			return says
		})
		if ready(n.pod(name)) {
			t.Errorf("%s is ready", name)
		}
	}

	// when one falls ill and gets well again, then its readiness follows
	before := n.pod("http")
	for _, mood := range []string{"sick", "well"} {
		if _, err := n.get(before.Status.PodIP+":8080", "/"+mood); err != nil {
			t.Fatal(err)
		}
		n.waitPod("http", "is "+mood, 10*time.Second, func(p v1.Pod) string { return boolText(ready(p) == (mood == "well")) })
	}

	// when the agent is killed, then the next one knows that they are ready: no status flips
	n.crash()
	n.start()
	seen := n.watch()
	n.waitPod("http", "is there", startLimit, func(p v1.Pod) string { return boolText(ready(p)) })
	for _, p := range seen.states("http") {
		if isStarted(p) && !ready(p) {
			t.Errorf("it was not ready for a moment: %s", summary(p))
		}
	}
	if after := n.pod("http"); app(after).ContainerID != app(before).ContainerID {
		t.Error("it was restarted")
	}
}

// isStarted tells whether the main container runs, ready or not.
func isStarted(p v1.Pod) bool { return app(p).State.Running != nil }

func TestAContainerThatFailsItsLivenessProbeIsRestarted(t *testing.T) {
	t.Parallel()
	// given pods that do not end when they are told to, with much time, of which their probes leave them little
	n := newNode(t)
	stubborn := newPod("stubborn", "cling", "app")
	stubborn.Spec.TerminationGracePeriodSeconds = new(int64(15)) // 'down' has to wait for it at the end
	probe := every(httpGet(1))                                   // nobody is there
	probe.InitialDelaySeconds, probe.TerminationGracePeriodSeconds = 2, new(int64(1))
	stubborn.Spec.Containers[0].LivenessProbe = probe
	never := withPolicy(v1.RestartPolicyNever, newPod("never", "moody", ":8080"))
	never.Spec.Containers[0].LivenessProbe = every(execAsk(8080))
	never.Spec.Containers[0].LivenessProbe.InitialDelaySeconds = 2
	n.apply("pods.yaml", stubborn, never)
	n.start()

	// then the first is killed and comes again
	p := n.waitPod("stubborn", "is restarted", startLimit, func(p v1.Pod) string { return boolText(app(p).RestartCount == 1) })
	if end := app(p).LastTerminationState.Terminated; end == nil || end.ExitCode != 137 {
		t.Errorf("it ended with %+v", end)
	}
	if e := n.waitEvent(p, event.Killing); e.Message != "Container app failed liveness probe, will be restarted" {
		t.Errorf("the event says %q", e.Message)
	}

	// when the second falls ill, then it is over
	p = n.waitRunning("never")["never"]
	if _, err := n.get(p.Status.PodIP+":8080", "/sick"); err != nil {
		t.Fatal(err)
	}
	n.waitPod("never", "is over", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed)
	})
}

func TestWhatFollowsASidecarWaitsForItsStartupProbe(t *testing.T) {
	t.Parallel()
	// given a sidecar that takes its time to be up, before an init container and a main one
	n := newNode(t)
	p := newPod("web", "diary", "app", "0s")
	slow := sidecar(newContainer("slow", "moody", ":8080", "3s"))
	slow.StartupProbe = every(httpGet(8080))
	slow.StartupProbe.FailureThreshold = 30
	p.Spec.InitContainers = []v1.Container{slow, newContainer("setup", "diary", "setup", "0s", "10ms")}
	n.apply("web.yaml", p)
	n.start()

	// then they wait until it is
	got := n.waitRunning("web")["web"]
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
	log := n.openDiaries(got).until("setup start", "setup end", "app start")
	if at := log.at("setup", "start"); at.Before(upAt) {
		t.Errorf("what follows began %s after the sidecar, which was up after 3s", at.Sub(began))
	}

	// when the agent is killed, then it is not asked for its start again
	n.crash()
	n.start()
	again := n.waitRunning("web")["web"]
	if again.Status.InitContainerStatuses[0].RestartCount != 0 || app(again).ContainerID != app(got).ContainerID {
		t.Errorf("something was restarted: %s", summary(again))
	}
}

func TestCommandsThatHangInOnePodDoNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	// given a pod with many containers, all of whose commands hang, and another one
	n := newNode(t)
	hangs := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "sleep"}}}
	stuck := newPod("stuck")
	stuck.Spec.Containers = nil
	for i := range 8 {
		c := newContainer(fmt.Sprint("app", i), "sleep")
		c.ReadinessProbe, c.LivenessProbe = every(hangs), every(hangs)
		c.ReadinessProbe.TimeoutSeconds, c.LivenessProbe.TimeoutSeconds = 300, 300
		stuck.Spec.Containers = append(stuck.Spec.Containers, c)
	}
	n.apply("stuck.yaml", stuck)
	n.start()
	n.waitPod("stuck", "runs", startLimit, func(p v1.Pod) string {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				return c.Name
			}
		}
		return boolText(len(p.Status.ContainerStatuses) == 8)
	})

	// when a pod comes whose command answers, then it is ready soon after it runs
	web := newPod("web", "moody", ":8080")
	web.Spec.Containers[0].ReadinessProbe = every(execAsk(8080))
	n.apply("web.yaml", web)
	n.waitPod("web", "runs", startLimit, func(p v1.Pod) string { return boolText(isStarted(p)) })
	n.waitPod("web", "is ready", 10*time.Second, func(p v1.Pod) string { return boolText(ready(p)) })
}

func TestWhatProbesFoundCanBeSeenWhileAContainerWaitsForItsRestart(t *testing.T) {
	t.Parallel()
	// given a pod that fails its liveness probe again and again, and one that is asked by a program that is missing
	n := newNode(t)
	sick := newPod("sick", "sleep")
	sick.Spec.TerminationGracePeriodSeconds = new(int64(1))
	sick.Spec.Containers[0].LivenessProbe = every(httpGet(1))
	odd := newPod("odd", "sleep")
	odd.Spec.Containers[0].ReadinessProbe = every(v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/nope"}}})
	n.apply("pods.yaml", sick, odd)
	n.start()

	// then it can be seen why, even while nothing of it runs
	n.waitPod("sick", "waits for its restart", startLimit, func(p v1.Pod) string {
		return boolText(app(p).State.Waiting != nil && app(p).State.Waiting.Reason == pod.ReasonCrashLoopBackOff)
	})
	n.wait("what its probe found", 5*time.Second, func() string {
		text := n.must("describe", "pod", "sick")
		return boolText(regexp.MustCompile(`(?m)^  app +Liveness +failed .*before its restart: .*connection refused`).MatchString(text))
	})

	// and what goes wrong in the same way is one event
	p := n.waitPod("odd", "runs", startLimit, func(p v1.Pod) string { return boolText(isStarted(p)) })
	n.wait("the same to go wrong three times", startLimit, func() string {
		e := n.waitEvent(p, event.Unhealthy)
		return boolText(e.Count >= 3 && strings.Contains(e.Message, "/nope"))
	})
	messages := map[string]bool{}
	for _, e := range n.eventsOf(p) {
		if e.Reason == event.Unhealthy {
			messages[e.Message] = true
		}
	}
	if len(messages) != 1 {
		t.Errorf("it is told in %d ways: %v", len(messages), messages)
	}
}
