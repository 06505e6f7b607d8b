package execute

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/volume"
	"berth/internal/runtime/image"
)

// meshed is a pod whose first container has the postStart hook "warmup".
func meshed(uid pod.UID) *v1.Pod {
	p := web(uid, "proxy", "app")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"warmup"}}}}
	return p
}

// created returns the names of the containers of a pod in the runtime, the oldest first.
func (n *node) created(p *v1.Pod) []string {
	n.t.Helper()
	var out []string
	for _, c := range n.have(p).Containers {
		out = append(out, c.Name)
	}
	slices.Reverse(out)
	return out
}

func (n *node) expectCreated(p *v1.Pod, want ...string) {
	n.t.Helper()
	if got := n.created(p); !slices.Equal(got, want) {
		n.t.Fatalf("created: %v, want %v", got, want)
	}
}

// expectOnce checks that an event was recorded once.
func (n *node) expectOnce(event string) {
	n.t.Helper()
	count := 0
	for _, e := range n.events.All() {
		if e == event {
			count++
		}
	}
	if count != 1 {
		n.t.Errorf("%q was recorded %d times among %q", event, count, n.events.All())
	}
}

func TestAPostStartHookHoldsUpTheNextContainer(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given a pod whose first container has a hook that takes long
		n.hooks.SetDuration("warmup", time.Minute)
		p := meshed("a")
		var outcome pod.Outcome
		var err error
		have := n.have(p)
		go func() { outcome, err = n.Sync(n.t.Context(), p, have) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()

		// then the next one is not made before it has ended, and no other pod waits for that
		n.expectCreated(p, "proxy")
		n.settle(web("b", "app"))

		// when it has ended, then the first one is shown as running before the next one is started
		time.Sleep(time.Minute)
		synctest.Wait()
		if err != nil || !outcome.Again {
			t.Fatalf("got %+v, %v", outcome, err)
		}
		n.expectCreated(p, "proxy")
		n.runtime.Fail("CreateContainer", errors.New("disk full"))
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectState(p, "proxy", "running")
		n.runtime.Fail("CreateContainer", nil)
		n.settle(p)
		n.expectState(p, "app", "running")
		n.expectCreated(p, "proxy", "app")
	})
}

func TestAFailedPostStartHookLetsTheNextContainerStart(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.hooks.SetError("warmup", errors.New("too cold"))
		p := meshed("a")
		if _, err := n.sync(p); err != nil {
			t.Fatal(err)
		}
		n.expectCreated(p, "proxy", "app")
		if proxy := n.have(p).Container("proxy"); proxy.State != pod.ContainerExited {
			t.Errorf("its hook failed, and it is %+v", proxy)
		}
	})
}

func TestAPostStartHookWithoutAnAnswerHoldsUpTheNextContainer(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.hooks.SetError("warmup", pod.ErrNoAnswer)
		p := meshed("a")
		for i := range 3 {
			if i == 1 {
				n.expectState(p, "app", "ContainerCreating: container proxy starts before it")
			}
			if _, err := n.sync(p); !errors.Is(err, pod.ErrNoAnswer) {
				t.Fatalf("got %v", err)
			}
			n.expectCreated(p, "proxy")
		}
		n.hooks.SetError("warmup", nil)
		n.settle(p)
		n.expectState(p, "app", "running")
		n.expectOnce(`Pulled Container image "app" already present on machine`)
	})
}

func TestAContainerWhoseStartHadNoAnswerHoldsUpTheNextOne(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.runtime.LoseStart()
		p := meshed("a")
		if _, err := n.sync(p); !errors.Is(err, pod.ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		n.expectCreated(p, "proxy")
		n.settle(p)
		n.expectState(p, "app", "running")
	})
}

func TestContainersStartInTheOrderOfTheirSpec(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given the first image is being pulled
		n.images.set("first", &image.State{Reason: pod.ReasonContainerCreating, Message: "Pulling"})
		p := web("a", "first", "second")
		n.settle(p)
		n.settle(p)
		n.expectCreated(p)
		n.expectState(p, "second", "ContainerCreating: container first starts before it")
		n.settle(web("b", "third")) // no slot is held

		// when the pull fails, then the second does not wait for the next attempt
		n.images.set("first", &image.State{Reason: pod.ReasonErrImagePull, Message: "no route"})
		n.settle(p)
		n.expectState(p, "second", "running")
		n.expectOnce(`Pulled Container image "second" already present on machine`)
		n.expectState(p, "first", "ErrImagePull: no route")
		n.images.set("first", nil)
		n.settle(p)
		n.expectState(p, "first", "running")
	})
}

func TestAnEphemeralContainerHoldsUpNoOther(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "debug"}}}
		n.images.set("debug", &image.State{Reason: pod.ReasonContainerCreating, Message: "Pulling"})
		n.exit(p, "app", 1)
		n.settle(p)
		n.expectState(p, "app", "running")
	})
}

func TestAContainerWithAPostStartHookThatLacksAVolumeHoldsUpTheNextOne(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"with a hook":    {meshed("a"), "ContainerCreating: container proxy starts before it"},
		"without a hook": {web("a", "proxy", "app"), "running"},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, func(n *node) {
				p := test.pod
				p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "certs"}}
				n.volumes.Fail(volume.Errors{{Volume: "certs", Err: errors.New("no such secret")}})
				for range 3 {
					_, _ = n.sync(p) // it fails for the volume
				}
				n.expectState(p, "app", test.want)
				n.volumes.Fail(nil)
				n.settle(p)
				n.expectState(p, "proxy", "running")
				n.expectState(p, "app", "running")
			})
		})
	}
}
