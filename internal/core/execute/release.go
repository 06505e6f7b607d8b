package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Release lets the API server delete a pod that was deleted after it had terminated: it frees
// what the pod still holds on this node, and then tells the API server so, once.
func (e *Executor) Release(ctx context.Context, p *v1.Pod, have pod.Observed) error {
	_, err := e.Stop(ctx, p, have, 0, pod.Cause{Why: "it was deleted"})
	return err
}
