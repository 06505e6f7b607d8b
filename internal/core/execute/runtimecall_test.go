package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// slowVolumes set up the volumes of one pod only when the test allows it.
type slowVolumes struct {
	Volumes
	slow   pod.UID
	answer chan error
}

func (s slowVolumes) wait(ctx context.Context, p *v1.Pod) error {
	if p.UID != s.slow {
		return nil
	}
	select {
	case err := <-s.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowVolumes) Mounts(ctx context.Context, p *v1.Pod, _ *v1.Container, _ map[string]string) ([]render.Mount, error) {
	return nil, s.wait(ctx, p)
}

// slowSetup is as slow earlier on.
type slowSetup struct{ slowVolumes }

func (s slowSetup) Setup(ctx context.Context, p *v1.Pod, _ []string) (time.Time, error) {
	return time.Time{}, s.wait(ctx, p)
}

func TestASlotIsNotHeldForAVolume(t *testing.T) {
	onNode(t, 1, func(n *node) {
		slow, other := web("a", "app"), web("b", "app")
		volumes := slowVolumes{n.volumes, slow.UID, make(chan error)}
		n.Volumes = volumes
		synced := make(chan error)
		go func() {
			_, err := n.Sync(n.t.Context(), slow, n.have(slow))
			synced <- err
		}()
		synctest.Wait()

		n.settle(other) // would wait for the slot
		n.expectState(other, "app", "running")

		volumes.answer <- errors.New("subPath: gone")
		if err := <-synced; err == nil {
			t.Error("want an error")
		}
		n.expectState(slow, "app", "CreateContainerConfigError: why: subPath: gone")
		close(volumes.answer)
		n.settle(slow)
		n.expectState(slow, "app", "running")
	})
}

func TestARuntimeThatTakesLongIsShownAndKeepsNoSlot(t *testing.T) {
	for call, what := range map[string]string{
		"RunSandbox": "create the sandbox", "CreateContainer": "create the container", "StartContainer": "start the container",
	} {
		onNode(t, 1, func(n *node) {
			slow, other := web("a", "app"), web("b", "app")
			n.runtime.Delay(call, 3*time.Minute)
			began := time.Now()
			synced := make(chan error)
			go func() {
				_, err := n.Sync(n.t.Context(), slow, n.have(slow))
				synced <- err
			}()
			time.Sleep(slowCallTimeout - time.Second)
			if taken, _, _ := n.Slots.Usage(); taken != 1 {
				t.Errorf("%s: %d slots are taken at first", call, taken)
			}
			time.Sleep(2 * time.Second)
			n.expectState(slow, "app", fmt.Sprintf("ContainerCreating: %s: no answer from the runtime since %s", what, began.UTC().Format(time.RFC3339)))

			n.runtime.Delay(call, 0)
			n.settle(other)
			n.expectState(other, "app", "running")

			if err := <-synced; err != nil {
				t.Error(err)
			}
			n.settle(slow)
			n.expectState(slow, "app", "running")
			if _, free, _ := n.Slots.Usage(); free != 1 {
				t.Errorf("%s: %d slots are free in the end", call, free)
			}
		})
	}
}

func TestWhatIsBrokenOffIsNoFailure(t *testing.T) {
	for name, wrap := range map[string]func(slowVolumes) Volumes{
		"setup":  func(s slowVolumes) Volumes { return slowSetup{s} },
		"mounts": func(s slowVolumes) Volumes { return s },
	} {
		onNode(t, 1, func(n *node) {
			p := web("a", "app")
			n.Volumes = wrap(slowVolumes{n.volumes, p.UID, make(chan error)})
			ctx, cancel := context.WithCancel(n.t.Context())
			time.AfterFunc(time.Second, cancel) // the pod is removed while its volume hangs
			if _, err := n.Sync(ctx, p, n.have(p)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			if recorded := n.events.All(); slices.ContainsFunc(recorded, func(e string) bool { return strings.Contains(e, "canceled") }) {
				t.Errorf("%s: %q", name, recorded)
			}
		})
	}
}

func TestTheSameFailureHasTheSameMessage(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		for _, c := range []string{"1", "2"} {
			n.runtime.Fail("CreateContainer", fmt.Errorf("failed to generate container %q spec: no such device", strings.Repeat(c, 64)))
			if _, err := n.sync(p); err == nil {
				t.Fatal("want an error")
			}
			n.expectState(p, "app", `CreateContainerError: why: failed to generate container "..." spec: no such device`)
		}
	})
}

// stuckVolumes do not go.
type stuckVolumes struct {
	Volumes
	err *error
}

func (s stuckVolumes) Teardown(context.Context, pod.UID) error { return *s.err }

func TestAVolumeThatDoesNotGoIsShownWithItsAge(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		stuck := errors.New("unmount /x (tmpfs), since 2000-01-01T00:00:00Z: it is in use")
		n.Volumes = stuckVolumes{n.volumes, &stuck}
		if _, err := n.stop(p); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 3 {
			if _, err := n.stop(p); err == nil {
				t.Fatal("want an error")
			}
			s, _ := n.Reports.Statuses.Get(p.UID)
			want := fmt.Sprintf("Terminating since %s: unmounting volumes: %s", began.UTC().Format(time.RFC3339), stuck)
			if s.Message != want {
				t.Errorf("%q, want %q", s.Message, want)
			}
			time.Sleep(10 * time.Second)
		}
		want := "FailedUnmount UnmountVolume.TearDown failed: " + stuck.Error()
		if recorded := n.events.All(); !slices.Equal(recorded[len(recorded)-3:], []string{want, want, want}) { // one, three times
			t.Errorf("events: %q", recorded)
		}
		stuck = nil
		n.stopped(p)
	})
}

// editedVolumes record the running containers when they are set up.
type editedVolumes struct {
	Volumes
	n     *node
	p     *v1.Pod
	lives *[]bool
}

func (e editedVolumes) Edited(*v1.Pod) bool { return len(*e.lives) == 0 }

func (e editedVolumes) Setup(context.Context, *v1.Pod, []string) (time.Time, error) {
	*e.lives = append(*e.lives, e.n.have(e.p).Container("app").State == pod.ContainerRunning)
	return time.Time{}, nil
}

func TestWhatAnEditEndsIsStoppedBeforeItsVolumesChange(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		var lives []bool
		n.Volumes = editedVolumes{n.volumes, n, p, &lives}
		p = p.DeepCopy()
		p.Spec.Containers[0].Args = []string{"other"}
		n.settle(p)
		n.expectState(p, "app", "running")
		if lives[0] || n.runtime.Calls("StopContainer") != 1 {
			t.Errorf("it ran: %v; stopped %d times", lives, n.runtime.Calls("StopContainer"))
		}
	})
}
