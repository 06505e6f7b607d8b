package execute

import "context"

// removeSandboxes removes the sandboxes of a pod, which are stopped and hold no containers.
func removeSandboxes(e *Executor, ctx context.Context, t *task) error {
	for _, s := range t.have.Sandboxes {
		if err := e.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
			return err
		}
	}
	return nil
}
