package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// leastStopGrace is the time between SIGTERM and SIGKILL that a container has even if the deadline of its
// pod has passed, say because of its preStop hook. The kubelet gives as much.
const leastStopGrace = 2 * time.Second

// wave is one of the groups of containers that are stopped one after the other.
type wave struct {
	ended  chan struct{} // closed when each of its containers was stopped or could not be
	failed bool          // a container could not be stopped; set before ended is closed
}

// stopInOrder stops containers that are alive, wave after wave, those of a wave at the same time. Their preStop
// hooks all begin now. Hooks, waves and signals share one deadline: after it no wave waits for another, and
// containers that still run are killed in leastStopGrace.
func (e *Executor) stopInOrder(ctx context.Context, t *task, containers []pod.Container, deadline time.Time) error {
	waves := plan.StopOrder(t.pod, containers)
	errs := make([]error, len(waves))
	var all sync.WaitGroup
	before := &wave{ended: make(chan struct{})}
	close(before.ended)
	for i, members := range waves {
		this, previous := &wave{ended: make(chan struct{})}, before
		before = this
		all.Go(func() {
			defer close(this.ended)
			var stopped bool
			stopped, errs[i] = e.stopWave(ctx, t, members, previous, deadline)
			this.failed = !stopped
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// stopWave stops the containers of one wave, each after its hook and once the previous wave has ended. It reports
// whether it stopped all: if a container of the previous wave could not be stopped, those of this one go on until
// the deadline.
func (e *Executor) stopWave(ctx context.Context, t *task, members []pod.Container, previous *wave, deadline time.Time) (bool, error) {
	stopped, errs := make([]bool, len(members)), make([]error, len(members))
	var wg sync.WaitGroup
	for i, c := range members {
		wg.Go(func() {
			e.Reports.Events.RecordContainer(t.pod, c.Name, v1.EventTypeNormal, event.Killing, killingMessage(c))
			defer e.preStop(ctx, t, c, deadline)()
			if !previous.await(ctx, deadline) {
				errs[i] = ctx.Err() // nil: the previous wave has an error
				return
			}
			errs[i] = e.stopContainer(ctx, c.ID, deadline)
			stopped[i] = errs[i] == nil
		})
	}
	wg.Wait()
	return !slices.Contains(stopped, false), errors.Join(errs...)
}

// await waits until all containers of a wave were stopped, or for the deadline, and reports whether the next wave
// is to be stopped.
func (w *wave) await(ctx context.Context, deadline time.Time) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-w.ended:
		return !w.failed || !time.Now().Before(deadline)
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopContainer has the runtime stop a container by the deadline, but not sooner than in leastStopGrace.
func (e *Executor) stopContainer(ctx context.Context, id string, deadline time.Time) error {
	return e.Runtime.StopContainer(ctx, id, max(leastStopGrace, time.Until(deadline)))
}

// killingMessage is the message of the event Killing.
func killingMessage(c pod.Container) string {
	if c.Health.Dead == "" {
		return "Stopping container " + c.Name
	}
	probe, _, _ := strings.Cut(c.Health.Dead, " ")
	return fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, strings.ToLower(probe))
}

func filterContainers(have pod.Observed, is func(pod.Container) bool) []pod.Container {
	var out []pod.Container
	for _, c := range have.Containers {
		if is(c) {
			out = append(out, c)
		}
	}
	return out
}

func containersWithID(have pod.Observed, id string) []pod.Container {
	return filterContainers(have, func(c pod.Container) bool { return c.ID == id })
}
