package execute

import (
	"context"

	"berth/internal/core/status"
)

// reportStop publishes that the pod is stopped, and lets the upstream complete the deletion of a pod
// that was deleted, once.
func reportStop(e *Executor, _ context.Context, t *task) error {
	t.memory.terminate(podStopped{})
	e.publish(status.Input{Pod: t.pod, Observed: t.have, Finished: e.finished(t), Stopped: true})
	if t.pod.DeletionTimestamp != nil && t.memory.termination.phase != released {
		e.Reports.Upstream.Release(t.pod)
		t.memory.terminate(upstreamInformed{})
	}
	return nil
}
