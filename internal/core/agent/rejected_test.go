package agent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/shutdown"
	"berth/internal/core/admit"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// onPort is a static pod with a port of the machine.
func onPort(uid pod.UID) *v1.Pod {
	p := webPod(uid)
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP}}
	return p
}

func TestARejectedStaticPodRunsOnceItsPortIsFree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given three pods that want the same port
		r := fake.New(testImage)
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		r.Delay("StopContainer", 5*time.Second)
		first := n.stopping(onPort("first"), 30*time.Second)
		n.wants(first)
		n.wants(first, onPort("second"))
		time.Sleep(time.Second)
		n.wants(first, onPort("second"), onPort("third"))
		n.expectPhase("second", v1.PodFailed)
		n.expectPhase("third", v1.PodFailed)
		time.Sleep(time.Hour)
		rejections := 0
		for _, e := range n.events.All() {
			if strings.HasPrefix(e, pod.ReasonNodePorts) {
				rejections++
			}
		}
		if rejections != 2 {
			t.Errorf("%d events of rejections: it is said once for each", rejections)
		}

		// when the first goes, then the oldest of the others waits for its end
		n.wants(onPort("second"), onPort("third"))
		time.Sleep(time.Second)
		n.expectPhase("second", v1.PodFailed)
		// and runs then, and its mirror says so; the other still has to wait
		time.Sleep(time.Minute)
		n.expectPhase("second", v1.PodRunning)
		n.expectPhase("third", v1.PodFailed)
		if s := n.pod("second").Status; s.Reason != "" || s.Message != "" {
			t.Errorf("got %+v", s)
		}
		if s := n.upstream.Published(onPort("second").Name); s.Phase != v1.PodRunning {
			t.Errorf("published: %+v", s)
		}
	})
}

func TestARejectedStaticPodRunsOnceAJobHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		job := onPort("job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		n.wants(job, onPort("web"))
		n.expectPhase("web", v1.PodFailed)
		must(t, r.Exit("job", "app", 0))
		n.expectPhase("job", v1.PodSucceeded)
		time.Sleep(time.Second)
		n.expectPhase("web", v1.PodRunning)
		n.expectPhase("job", v1.PodSucceeded)
	})
}

func TestARejectedStaticPodRunsOnceTheNodeIsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.becomes(func(m *admit.Node) { m.Labels = map[string]string{} })
		p := webPod("box")
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		n.wants(p)
		n.expectPhase("box", v1.PodFailed)
		n.becomes(func(m *admit.Node) { m.Labels = map[string]string{"disk": "ssd"} })
		time.Sleep(2 * time.Minute)
		n.expectPhase("box", v1.PodRunning)
	})
}

func TestAPodOfAnAPIServerStaysRejected(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(onPort("first"))
		late := onPort("late")
		late.Annotations[pod.AnnotationSource] = pod.SourceAPI
		n.binds(late)
		n.expectPhase("late", v1.PodFailed)
		n.wants()
		time.Sleep(time.Hour)
		n.expectPhase("late", v1.PodFailed)
	})
}

func TestARejectedPodDoesNotRunOnADrainedNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		n.wants(onPort("first"), onPort("second"))
		n.expectPhase("second", v1.PodFailed)
		n.drained(m)
		n.wants(onPort("second"))
		time.Sleep(time.Hour)
		n.expectPhase("second", v1.PodFailed)
		n.undone(m)
		time.Sleep(time.Minute)
		n.expectPhase("second", v1.PodRunning)
	})
}

// What came while the node was drained must not take what a drained pod had, and gets back.
func TestADrainedPodKeepsItsPort(t *testing.T) {
	for name, stopTakes := range map[string]time.Duration{"stopped": 0, "undone while it stops": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := fake.New(testImage)
				n := startNode(t, r, t.TempDir())
				defer n.stop()
				m := n.drains()
				n.wants(onPort("z-first"))
				n.expectPhase("z-first", v1.PodRunning)
				r.Delay("StopSandbox", stopTakes)
				go func() { _, _ = m.Drain(t.Context(), shutdown.Order{}, func(shutdown.Progress) {}) }()
				time.Sleep(time.Second)
				n.wants(onPort("z-first"), onPort("a-second"))
				n.undone(m)
				time.Sleep(time.Hour)
				n.expectPhase("z-first", v1.PodRunning)
				n.expectPhase("a-second", v1.PodFailed)
			})
		})
	}
}

// A pod that had begun before the agent was restarted is admitted whatever happens. So others
// are asked for after it, however the agent comes to know of them.
func TestAPodThatHadBegunKeepsItsPortOverARestart(t *testing.T) {
	for name, send := range map[string]func(n *node, pods []*v1.Pod){
		"remembered": func(n *node, pods []*v1.Pod) {
			n.remembers(false, pods...)
			n.wants(pods...)
		},
		"read anew": func(n *node, pods []*v1.Pod) { n.wants(pods...) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, dir := fake.New(testImage), t.TempDir()
				n := startNode(t, r, dir)
				n.wants(onPort("z-first"))
				n.drained(n.drains())
				n.stop()
				n = startNode(t, r, dir)
				defer n.stop()
				synctest.Wait()
				send(n, []*v1.Pod{onPort("a-second"), onPort("z-first")})
				time.Sleep(time.Minute)
				n.expectPhase("z-first", v1.PodRunning)
				n.expectPhase("a-second", v1.PodFailed)
			})
		})
	}
}

// The pod whose file was put back waits for the end of its life before, and has its port meanwhile.
func TestAPodThatIsPutBackKeepsItsPort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		n.wants(onPort("first"))
		r.Delay("RemoveSandbox", 5*time.Second)
		n.wants()
		n.wants(onPort("first"))
		n.wants(onPort("first"), onPort("second"))
		time.Sleep(time.Minute)
		n.expectPhase("first", v1.PodRunning)
		n.expectPhase("second", v1.PodFailed)
	})
}
