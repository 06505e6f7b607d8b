package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Cleanup removes all that is left of a pod: containers, sandboxes, cgroup,
// directories, links. After that, nothing is known of it.
func (e *Executor) Cleanup(ctx context.Context, p *v1.Pod, have pod.Observed) error {
	return e.runSteps(ctx, &task{pod: p, have: have, memory: e.memories.get(p.UID)}, cleanupSteps)
}
