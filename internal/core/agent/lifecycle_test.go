package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

func withInit(p *v1.Pod, once string, sidecars ...string) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	for _, name := range sidecars {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name, Image: testImage, RestartPolicy: &always})
	}
	if once != "" {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: once, Image: testImage})
	}
	return p
}

func exec(command string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{command}}}
}

func running(n *node, uid pod.UID) []string {
	n.t.Helper()
	synctest.Wait()
	all, err := n.runtime.List(n.t.Context())
	must(n.t, err)
	var names []string
	if all[uid] == nil {
		return nil
	}
	for _, c := range all[uid].Containers {
		if c.State == pod.ContainerRunning {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func expectRunning(n *node, uid pod.UID, want ...string) {
	n.t.Helper()
	if got := running(n, uid); !slices.Equal(got, want) {
		n.t.Fatalf("running %v, want %v; events %v", got, want, n.events.All())
	}
}

func TestSidecarsThenInitThenMainAndBackwardsAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(withInit(webPod("a"), "setup", "mesh", "logs"))
		expectRunning(n, "a", "logs", "mesh", "setup")
		n.expectPhase("a", v1.PodPending)
		must(t, n.runtime.Exit("a", "setup", 0))
		expectRunning(n, "a", "app", "logs", "mesh")
		n.expectPhase("a", v1.PodRunning)

		n.wants()
		var order []string
		for _, s := range n.runtime.Stops() {
			order = append(order, s.Container)
		}
		if want := []string{"app", "logs", "mesh"}; !slices.Equal(order, want) {
			t.Fatalf("stopped in the order %v, want %v", order, want)
		}
	})
}

func TestAnInitContainerThatFailsForGoodFailsThePod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := withInit(webPod("a"), "setup", "mesh")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		n.wants(p)
		must(t, n.runtime.Exit("a", "setup", 3))
		n.expectPhase("a", v1.PodFailed)
		expectRunning(n, "a")
	})
}

func TestSidecarsDoNotHoldBackCompletion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := withInit(webPod("job"), "", "mesh")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		n.wants(p)
		must(t, n.runtime.Exit("job", "app", 0))
		n.expectPhase("job", v1.PodSucceeded)
		expectRunning(n, "job")
	})
}

func TestAFailedPostStartHookKillsItsContainer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hooks.SetError("warmup", errors.New("too cold"))
		p := webPod("a")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: exec("warmup")}
		n.wants(p)
		synctest.Wait()
		if stops := n.runtime.Stops(); len(stops) == 0 {
			t.Fatal("the container was not stopped")
		}
		if !slices.Contains(n.events.All(), "FailedPostStartHook PostStartHook failed: too cold") {
			t.Fatalf("events %v", n.events.All())
		}
		if c := n.app("a"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonCrashLoopBackOff {
			t.Fatalf("it keeps failing, and must wait: %+v", c.State)
		}
	})
}

func TestPreStopAndTheSignalShareOneDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hooks.SetDuration("drain", 12*time.Second)
		p := webPod("a")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: exec("drain")}
		n.wants(p)
		n.expectPhase("a", v1.PodRunning)

		n.wants()
		time.Sleep(5 * time.Second)
		if got := n.pod("a"); !strings.Contains(got.Status.Message, "stopping containers") || got.DeletionTimestamp == nil {
			t.Fatalf("nobody can read where the stop stands: %+v", got.Status.Message)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		stops := n.runtime.Stops()
		if len(stops) != 1 || stops[0].Grace != 18*time.Second {
			t.Fatalf("got %+v, want one stop with the 18 seconds that the hook left", stops)
		}
	})
}

func TestAPreStopHookThatHangsIsCutOffAtTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hooks.SetDuration("drain", time.Hour)
		p := webPod("a")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: exec("drain")}
		n.wants(p)
		n.wants()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if stops := n.runtime.Stops(); len(stops) != 1 || stops[0].Grace != 2*time.Second {
			t.Fatalf("got %+v, want one stop with the least grace", stops)
		}
		if pods, _ := n.agent.List(); len(pods) != 0 {
			t.Fatal("the pod is still there")
		}
	})
}

func TestAPodPastItsDeadlineIsFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		n := startNode(t, r, dir)
		p := webPod("a")
		p.Spec.ActiveDeadlineSeconds = new(int64(60))
		n.wants(p)
		time.Sleep(59 * time.Second)
		n.expectPhase("a", v1.PodRunning)
		time.Sleep(2 * time.Second)
		n.expectPhase("a", v1.PodFailed)
		if reason := n.pod("a").Status.Reason; reason != pod.ReasonDeadlineExceeded {
			t.Fatalf("reason %q", reason)
		}
		expectRunning(n, "a")
		n.stop()

		n = startNode(t, r, dir) // the next agent says the same
		defer n.stop()
		n.wants(p)
		n.expectPhase("a", v1.PodFailed)
		expectRunning(n, "a")
	})
}

func TestLastWordsAreReadFromTheFileOrTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := webPod("a")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
		p.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		n.wants(p)
		must(t, n.runtime.Exit("a", "app", 1))
		if c := n.app("a"); c.State.Terminated == nil || c.State.Terminated.Message != "the log" {
			t.Fatalf("got %+v", c.State)
		}
	})
}

func TestAnEphemeralContainerIsAddedToARunningPodAndHasOneLife(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		before := n.app("a").ContainerID
		p := webPod("a")
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: testImage}, TargetContainerName: "app",
		}}
		n.wants(p)
		expectRunning(n, "a", "app", "debug")
		must(t, n.runtime.Exit("a", "debug", 1))
		time.Sleep(time.Hour)
		expectRunning(n, "a", "app")
		if after := n.app("a").ContainerID; after != before {
			t.Fatalf("the main container was restarted: %s, before %s", after, before)
		}
		if s := n.pod("a").Status.EphemeralContainerStatuses; len(s) != 1 || s[0].State.Terminated == nil {
			t.Fatalf("got %+v", s)
		}
	})
}

func TestADeletedPodIsReleasedOnceNothingOfItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		n.runtime.Delay("StopContainer", 3*time.Second)
		p := webPod("a")
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(10))
		n.wants(p)
		if got := n.upstream.Released(); len(got) != 0 {
			t.Fatal("it was released while it ran")
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := n.upstream.Released(); !slices.Equal(got, []string{p.Name}) {
			t.Fatalf("released %v", got)
		}
		if phase := n.upstream.Published(p.Name).Phase; phase != v1.PodSucceeded {
			t.Fatalf("its last word was %s", phase)
		}
	})
}

func TestAPodThatEndedAndIsDeletedAfterwardsIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := webPod("job")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		n.wants(p)
		must(t, n.runtime.Exit("job", "app", 0))
		n.expectPhase("job", v1.PodSucceeded)
		deleted := p.DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		n.wants(deleted)
		if got := n.upstream.Released(); !slices.Equal(got, []string{p.Name}) {
			t.Fatalf("released %v", got)
		}
	})
}

func TestAMirrorPodGoesSoonAfterItsStaticPod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		static := webPod("a")
		n.wants(static)
		mirror := static.DeepCopy()
		mirror.UID = "mirror"
		mirror.Annotations = map[string]string{pod.AnnotationMirror: "hash"}
		n.snapshots <- pod.Snapshot{Source: pod.SourceAPI, Op: pod.Set, Pods: []*v1.Pod{mirror}}
		synctest.Wait()
		if phase := n.upstream.Published(static.Name).Phase; phase != v1.PodRunning {
			t.Fatalf("the mirror was shown %q", phase)
		}
		n.wants()
		if got := n.upstream.Unmirrored(); !slices.Contains(got, mirror.Name) {
			t.Fatalf("unmirrored %v", got)
		}
		expectRunning(n, "a")
	})
}

func TestARejectedPodThatIsDeletedIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := webPod("a")
		p.Spec.Volumes = []v1.Volume{{Name: "data"}} // which berth can't do yet
		n.wants(p)
		n.expectPhase("a", v1.PodFailed)
		deleted := p.DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		n.wants(deleted)
		if got := n.upstream.Released(); !slices.Equal(got, []string{p.Name}) {
			t.Fatalf("released %v", got)
		}
		if s := n.upstream.Published(p.Name); s.Phase != v1.PodFailed || s.Reason != pod.ReasonFeatureUnsupported {
			t.Fatalf("its last word was %s, %s", s.Phase, s.Reason)
		}
		if made := n.runtime.Calls("RunSandbox"); made != 0 {
			t.Fatal("it ran")
		}
	})
}

func TestAPodThatEndedBeforeTheAgentCameIsNotRunAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := webPod("a")
		p.Annotations, p.Status = nil, v1.PodStatus{Phase: v1.PodSucceeded}
		n.snapshots <- pod.Snapshot{Source: pod.SourceAPI, Op: pod.Set, Pods: []*v1.Pod{p}}
		time.Sleep(time.Minute)
		if made := n.runtime.Calls("RunSandbox"); made != 0 {
			t.Fatal("it ran again")
		}
		n.expectPhase("a", v1.PodSucceeded)
	})
}

func TestAHostNameThatIsTooLongIsTriedAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		p := webPod("a")
		p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("x", 60), "db", new(true)
		n.wants(p)
		time.Sleep(time.Hour)
		n.expectPhase("a", v1.PodPending)
		reported := 0
		for _, e := range n.events.All() {
			if strings.HasPrefix(e, "FailedCreatePodSandBox Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN ") {
				reported++
			}
		}
		if reported < 10 || reported > 300 {
			t.Errorf("reported %d times in an hour: %v", reported, n.events.All())
		}
	})
}
