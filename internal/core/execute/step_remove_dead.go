package execute

import (
	"context"
	"errors"
	"fmt"
	"os"

	"berth/internal/core/plan"
)

// removeDead removes the dead containers and sandboxes that the plan collects.
func removeDead(e *Executor, ctx context.Context, t *task) error {
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.RemoveContainer:
			if err := e.removeContainer(ctx, t, a); err != nil {
				return err
			}
		case plan.RemoveSandbox:
			if err := e.Runtime.RemoveSandbox(ctx, a.ID); err != nil {
				return err
			}
		default:
			continue
		}
		t.changedRuntime = true
	}
	return nil
}

func (e *Executor) removeContainer(ctx context.Context, t *task, a plan.RemoveContainer) error {
	if err := e.Runtime.RemoveContainer(ctx, a.ID); err != nil {
		return err
	}
	delete(t.memory.terminationMessages, a.ID)
	delete(t.memory.preStopsRun, a.ID)
	for _, c := range containersWithID(t.have, a.ID) {
		e.removeTerminationMessages(t, c.Name, func(attempt int32) bool { return usesTerminationMessage(t, c.Name, attempt, a.ID) })
		if err := e.unlinkLog(t.pod, c.Name, c.ID); err != nil {
			return err
		}
	}
	if err := os.Remove(a.LogPath); err != nil && !errors.Is(err, os.ErrNotExist) && a.LogPath != "" {
		return fmt.Errorf("remove the log of a container that is gone: %w", err)
	}
	return nil
}
