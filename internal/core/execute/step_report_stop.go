package execute

import (
	"context"

	"berth/internal/core/status"
)

// reportStop publishes that the pod is stopped. Once the upstream has heard of the end of a pod that
// was deleted, it is not told again.
func reportStop(e *Executor, _ context.Context, t *task) error {
	t.memory.terminate(podStopped{})
	e.publish(status.Input{Pod: t.pod, Observed: t.have, Finished: e.finished(t), Stopped: true})
	if t.pod.DeletionTimestamp != nil && t.memory.termination.phase != released {
		e.Reports.Upstream.Release(t.pod)
		t.memory.terminate(upstreamInformed{})
	}
	return nil
}
