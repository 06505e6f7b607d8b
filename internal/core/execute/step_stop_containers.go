package execute

import "context"

// stopContainers stops all containers of a pod by its deadline.
func stopContainers(e *Executor, ctx context.Context, t *task) error {
	return e.stopInOrder(ctx, t, t.have.Containers, t.deadline)
}
