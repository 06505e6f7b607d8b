package execute

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
)

// recordingHooks records which address hooks were sent to.
type recordingHooks struct {
	rung []string
	err  error
}

func (d *recordingHooks) Run(_ context.Context, t handler.Target, _ *v1.LifecycleHandler) error {
	d.rung = append(d.rung, t.PodIP)
	return d.err
}

func TestAPostStartHookFindsThePodInItsNewSandbox(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given a hook that connects to its pod
		bell := &recordingHooks{}
		n.Hooks = bell
		p := web("a", "app")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}},
		}
		// when the pod is made, and made anew with another name
		for round := range 2 {
			n.settle(p)
			// then the hook knows the address that the pod has now
			want := n.have(p).Sandboxes[0].IPs[0]
			if len(bell.rung) != round+1 || bell.rung[round] != want {
				t.Fatalf("the hook was sent to %q, and the pod is at %s", bell.rung, want)
			}
			p = p.DeepCopy()
			p.Spec.Hostname = "another"
		}
	})
}

func TestAPostStartHookWhosePodCanNotBeReadIsNotFailed(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given a hook that connects to its pod, and is still due
		bell := &recordingHooks{err: pod.ErrNoAnswer}
		n.Hooks = bell
		p := web("a", "app")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}},
		}
		if _, err := n.sync(p); !errors.Is(err, pod.ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		have := n.have(p)

		// when the runtime does not report the pod's IP, then the hook is still due
		bell.rung, bell.err = nil, nil
		n.runtime.Fail("Pod", pod.ErrNoAnswer)
		if _, err := n.Sync(n.t.Context(), p, have); !errors.Is(err, pod.ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		n.expectState(p, "app", "ContainerCreating: the postStart hook is run again: find the address of the pod: the container runtime does not answer")
		if n.runtime.Calls("StopContainer") != 0 || len(bell.rung) != 0 {
			t.Fatalf("the hook was sent to %q, and its container stopped %d times", bell.rung, n.runtime.Calls("StopContainer"))
		}

		// when it does, then the hook is run
		n.runtime.Fail("Pod", nil)
		n.settle(p)
		n.expectState(p, "app", "running")
		if len(bell.rung) != 1 {
			t.Errorf("the hook was sent to %q", bell.rung)
		}
	})
}

func TestWhatIsLeftOfAPostStartHookCanNotBeRead(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}}
		n.settle(p)
		if _, err := os.Stat(filepath.Join(n.Host.PodsDir, "a", postStartFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nothing is to be remembered: %v", err)
		}
		if err := os.WriteFile(filepath.Join(n.Host.PodsDir, "a", postStartFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.memories.forget(p.UID) // as after a restart of the agent
		n.settle(p)
		n.expectState(p, "app", "running")
	})
}
