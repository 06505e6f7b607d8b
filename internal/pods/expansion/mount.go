package expansion

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// AtMount expands a volume that has just been published for a pod, if it has grown since it was mounted
// last. An error says that the pod can't have the volume yet.
func (e *Expander) AtMount(ctx context.Context, v Volume, claim *v1.PersistentVolumeClaim) error {
	e.mu.Lock()
	s := e.volumeOf(&v)
	s.due = nextCheck()
	e.mu.Unlock()
	if !grownAtMount(claim, v.PV) {
		return nil
	}
	if v.ReadOnly {
		e.Record(v.Pod, claim, v1.EventTypeWarning, fileSystemResizeFailed,
			fmt.Sprintf("MountVolume.NodeExpandVolume failed for volume %q requested read-only file system", v.PV.Name))
		return nil
	}
	ctx = context.WithoutCancel(ctx) // half of the driver's work would be in vain otherwise
	have := *claim.Status.Capacity.Storage()
	if err := e.carryOut(ctx, &v, s, claim, decide(claim, v.PV, have)); err != nil {
		return fmt.Errorf("expand it: %w", err)
	}
	return nil
}
