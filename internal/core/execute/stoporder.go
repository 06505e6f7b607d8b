package execute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// stopInOrder stops containers that are alive, wave after wave, those of a wave at
// the same time. They share one deadline, which includes their hooks: after it, containers that
// still run are killed.
func (e *Executor) stopInOrder(ctx context.Context, t *task, containers []pod.Container, deadline time.Time) error {
	for _, wave := range plan.StopOrder(t.pod, containers) {
		errs := make([]error, len(wave))
		var wg sync.WaitGroup
		for i, c := range wave {
			wg.Go(func() {
				e.Reports.Events.RecordContainer(t.pod, c.Name, v1.EventTypeNormal, event.Killing, killingMessage(c))
				e.preStop(ctx, t, c, deadline)
				errs[i] = e.Runtime.StopContainer(ctx, c.ID, max(0, time.Until(deadline)))
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
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
