package app

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// observer knows what the runtime has of pods.
type observer interface {
	Get(ctx context.Context, uid pod.UID, since time.Time) (pod.Observed, error)
}

// endings knows when a part of a pod has ended. What the runtime has decides: a status
// comes later, and not everything has one.
type endings struct {
	observer observer
	statuses *status.Store
	log      *slog.Logger
}

func newEndings(c *core) endings { return endings{c.observer, c.statuses, c.log} }

// lookAgain is how often somebody who waits for an end looks for it. The runtime is
// only asked if something has happened to the pod.
const lookAgain = time.Second

// wait returns a channel that is closed once the part that is called what does not
// run any more, or ctx ends.
func (e endings) wait(ctx context.Context, uid pod.UID, what string, runs func(pod.Observed) bool) <-chan struct{} {
	done := make(chan struct{})
	run.NewGroup(ctx, e.log).Go("wait for the end of "+what, func(ctx context.Context) {
		defer close(done)
		changed, stop := e.statuses.Watch(uid)
		defer stop()
		for {
			// A runtime that does not answer tells nothing.
			if have, err := e.observer.Get(ctx, uid, time.Time{}); err == nil && !runs(have) {
				return
			}
			select {
			case <-changed:
			case <-time.After(lookAgain): // an end may change nothing in a status
			case <-ctx.Done():
				return
			}
		}
	})
	return done
}

// ofSandbox is that of a sandbox.
func (e endings) ofSandbox(ctx context.Context, uid pod.UID, id string) <-chan struct{} {
	return e.wait(ctx, uid, "sandbox "+id, func(have pod.Observed) bool {
		newest := have.Sandbox()
		return newest != nil && newest.ID == id && newest.State == pod.SandboxReady
	})
}

// ofContainer is that of a container, of whatever kind.
func (e endings) ofContainer(ctx context.Context, uid pod.UID, id string) <-chan struct{} {
	return e.wait(ctx, uid, "container "+id, func(have pod.Observed) bool {
		c := containerOf(have, id)
		return c != nil && c.State == pod.ContainerRunning
	})
}

// containerOf is nil if there is none.
func containerOf(have pod.Observed, id string) *pod.Container {
	for i := range have.Containers {
		if have.Containers[i].ID == id {
			return &have.Containers[i]
		}
	}
	return nil
}
