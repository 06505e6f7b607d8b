package execute

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Release lets the API server delete a pod that was deleted after it had terminated: it frees
// the resources that the pod still holds on this node, and then informs the upstream, once.
// A container that runs in spite of the termination (it was started past the agent) is stopped first, without grace.
func (e *Executor) Release(ctx context.Context, p *v1.Pod, have pod.Observed) error {
	t := &task{pod: p, have: have, memory: e.memories.get(p.UID), deadline: time.Now()}
	if have.Running() {
		return e.runSteps(ctx, t, stopSteps)
	}
	return e.runSteps(ctx, t, releaseSteps)
}
