package execute

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/telemetry/event"
)

// unmountVolumes takes down the volumes of a pod. What does not go is shown for as long
// as that is so, with the time since when: somebody uses it, or a server is away.
func unmountVolumes(e *Executor, ctx context.Context, t *task) error {
	err := e.Volumes.Teardown(ctx, t.pod.UID)
	if err == nil || ctx.Err() != nil { // it is begun anew at once
		return err
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	t.memory.terminate(stepHeldUp{text})
	e.publishStop(t)
	e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.FailedUnmount, "UnmountVolume.TearDown failed: "+text)
	return fmt.Errorf("take down its volumes: %w", err)
}
