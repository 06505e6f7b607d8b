package execute

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/telemetry/event"
)

// unmountVolumes takes down the volumes of a pod. A volume that can't be unmounted, because a
// process uses it or its server does not answer, is shown in the status, with the time since when.
func unmountVolumes(e *Executor, ctx context.Context, t *task) error {
	err := e.Volumes.Teardown(ctx, t.pod.UID)
	if err == nil || ctx.Err() != nil { // an interrupted stop is tried again at once
		return err
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	t.memory.terminate(stepHeldUp{text})
	e.publishStop(t)
	e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.FailedUnmount, "UnmountVolume.TearDown failed: "+text)
	return fmt.Errorf("take down its volumes: %w", err)
}
