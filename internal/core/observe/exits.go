package observe

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// ExitWatcher waits for the end of containers and sandboxes. It goes by the state of the runtime: a
// status changes later, and a sandbox has none.
type ExitWatcher struct {
	Pods interface {
		Get(ctx context.Context, uid pod.UID, since time.Time) (pod.Observed, error)
	}
	Statuses interface {
		// Watch returns a channel that holds a value when the status of a pod has changed.
		Watch(uid pod.UID) (changed <-chan struct{}, stop func())
	}
	Log *slog.Logger
}

// exitPollInterval is the time between two reads of a pod whose status does not change. The runtime is
// only asked if it had events of the pod.
const exitPollInterval = time.Second

// SandboxStopped returns a channel that is closed once a sandbox is not ready any more, or ctx ends.
func (w ExitWatcher) SandboxStopped(ctx context.Context, uid pod.UID, id string) <-chan struct{} {
	return w.wait(ctx, uid, "sandbox "+id, func(have pod.Observed) bool {
		newest := have.Sandbox()
		return newest != nil && newest.ID == id && newest.State == pod.SandboxReady
	})
}

// ContainerExited returns a channel that is closed once a container does not run any more, or ctx ends.
func (w ExitWatcher) ContainerExited(ctx context.Context, uid pod.UID, id string) <-chan struct{} {
	return w.wait(ctx, uid, "container "+id, func(have pod.Observed) bool {
		c := FindContainer(have, id)
		return c != nil && c.State == pod.ContainerRunning
	})
}

// wait returns a channel that is closed once runs returns false, or ctx ends. name is for the
// name of the goroutine.
func (w ExitWatcher) wait(ctx context.Context, uid pod.UID, name string, runs func(pod.Observed) bool) <-chan struct{} {
	done := make(chan struct{})
	run.NewGroup(ctx, w.Log).Go("wait for the end of "+name, func(ctx context.Context) {
		defer close(done)
		changed, stop := w.Statuses.Watch(uid)
		defer stop()
		for {
			// No answer of the runtime says nothing of the container.
			if have, err := w.Pods.Get(ctx, uid, time.Time{}); err == nil && !runs(have) {
				return
			}
			select {
			case <-changed:
			case <-time.After(exitPollInterval): // an end may change nothing in a status
			case <-ctx.Done():
				return
			}
		}
	})
	return done
}

// FindContainer returns the container with an ID, or nil.
func FindContainer(have pod.Observed, id string) *pod.Container {
	for i := range have.Containers {
		if have.Containers[i].ID == id {
			return &have.Containers[i]
		}
	}
	return nil
}
