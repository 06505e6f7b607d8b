package execute

import (
	"context"
	"errors"

	"berth/internal/lib/pod"
)

// removeCgroups removes the cgroup of a pod, wherever it is: of an orphan, nobody
// knows the class.
func (e *Executor) removeCgroups(ctx context.Context, uid pod.UID) error {
	var errs []error
	for _, path := range e.Node.Cgroups(uid) {
		errs = append(errs, e.RemoveCgroup(ctx, path))
	}
	return errors.Join(errs...)
}
