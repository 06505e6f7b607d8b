package expansion

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/csi"
)

// Reasons of events, as the kubelet has them.
const (
	fileSystemResizeSuccessful = "FileSystemResizeSuccessful"
	fileSystemResizeFailed     = "FileSystemResizeFailed"
	volumeResizeFailed         = "VolumeResizeFailed"
)

// carryOut carries out a decision: it calls the driver, and reports to the claim. It can be repeated. If
// the driver can't expand the volume while it is in use, that is no error.
func (e *Expander) carryOut(ctx context.Context, v *Volume, s *volume, claim *v1.PersistentVolumeClaim, d decision) error {
	if d.verdict == wait {
		return nil
	}
	if d.verdict == accept {
		return e.setSize(ctx, v, d)
	}
	if d.requested() {
		marked, err := e.patch(ctx, claim, markInProgress(claim), true)
		if err != nil {
			return fmt.Errorf("mark the expansion of the claim as in progress: %w", err)
		}
		claim = marked
	}
	err := e.Drivers.Expand(ctx, csi.Expansion{Pod: v.Pod, PV: v.PV, Dir: v.Dir, Bytes: d.size.Value()})
	if errors.Is(err, csi.ErrCantExpand) && !d.requested() {
		return e.setSize(ctx, v, d) // the resizer has not asked for it
	}
	if err != nil {
		return e.fail(ctx, v, s, claim, d, err)
	}
	e.Record(v.Pod, claim, v1.EventTypeNormal, fileSystemResizeSuccessful,
		fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", v.PV.Name, e.NodeName))
	if d.report {
		if _, err := e.patch(ctx, claim, markFinished(claim, d.size), true); err != nil {
			return fmt.Errorf("write the new size of the claim: %w", err)
		}
	}
	e.mu.Lock()
	s.failedFinally, s.inUse = false, false
	e.mu.Unlock()
	return e.setSize(ctx, v, d)
}

func (e *Expander) setSize(ctx context.Context, v *Volume, d decision) error {
	return e.Drivers.SetSize(ctx, v.PV.Spec.CSI.Driver, v.PV.Spec.CSI.VolumeHandle, d.size.Value())
}

// fail reports a refusal of the driver to the claim, if the resizer can recover from it. It returns nil if
// the volume can be used nevertheless, and is not to be expanded again on this node.
func (e *Expander) fail(ctx context.Context, v *Volume, s *volume, claim *v1.PersistentVolumeClaim, d decision, refused error) error {
	var answer *csi.CallError
	errors.As(refused, &answer)
	final := errors.Is(refused, csi.ErrCantExpand) || answer != nil && answer.Final()
	inUse := answer != nil && answer.InUse()
	e.mu.Lock()
	again := s.failedFinally
	s.failedFinally, s.inUse = s.failedFinally || final, s.inUse || inUse
	e.mu.Unlock()
	if final && d.requested() {
		// If the claim requests another size since the failure, this size is given up, so that the resizer can allocate that one.
		wanted := claim.Spec.Resources.Requests.Storage()
		infeasible := answer != nil && answer.Infeasible() || again && wanted.Cmp(d.size) != 0
		if _, err := e.patch(ctx, claim, markFailed(claim, refused, infeasible, time.Now()), false); err != nil {
			e.Log.Warn("can't write to the claim why its volume was not expanded", "volume", v.PV.Name, "err", err)
		}
	}
	if inUse {
		e.Log.Warn("a volume can't be expanded while it is in use: it will be when it is mounted again", "volume", v.PV.Name, "err", refused)
		return nil
	}
	return refused
}

// patch writes the difference between two states of a claim, and returns the claim as it is then.
func (e *Expander) patch(ctx context.Context, before, after *v1.PersistentVolumeClaim, version bool) (*v1.PersistentVolumeClaim, error) {
	patch, err := statusPatch(before, after, version)
	if err != nil || patch == nil {
		return before, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return e.PatchStatus(ctx, before.Namespace, before.Name, patch)
}
