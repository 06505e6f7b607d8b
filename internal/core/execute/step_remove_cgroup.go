package execute

import (
	"context"
	"errors"
)

// removeCgroup removes the cgroup of a pod, wherever it is: the QoS class of an orphan is
// not known.
func removeCgroup(e *Executor, ctx context.Context, t *task) error {
	var errs []error
	for _, name := range e.Node.Cgroups(t.pod.UID) {
		errs = append(errs, e.Host.RemoveCgroup(ctx, name))
	}
	return errors.Join(errs...)
}
