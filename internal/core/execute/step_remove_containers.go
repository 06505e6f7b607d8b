package execute

import "context"

// removeContainers removes the containers of a pod, and the links to their logs.
func removeContainers(e *Executor, ctx context.Context, t *task) error {
	for _, c := range t.have.Containers {
		if err := e.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			return err
		}
		if err := e.unlinkLog(t.pod, c.Name, c.ID); err != nil {
			return err
		}
	}
	return nil
}
