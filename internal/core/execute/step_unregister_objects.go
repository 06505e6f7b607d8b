package execute

import "context"

// unregisterObjects ends the watch on the ConfigMaps, Secrets and other objects that the pod refers to.
func unregisterObjects(e *Executor, _ context.Context, t *task) error {
	e.Objects.Unregister(t.pod.UID)
	return nil
}
