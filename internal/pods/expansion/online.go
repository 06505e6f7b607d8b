package expansion

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Online expands a mounted volume if it has grown, and returns when to call Online again; zero: never. It
// does not block: the claim is read and the driver called in a goroutine of its own.
func (e *Expander) Online(v Volume) (again time.Time) {
	if v.ReadOnly || !e.Drivers.CanExpand(v.PV.Spec.CSI.Driver) {
		return time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.volumeOf(&v)
	switch {
	case s.inUse:
		return time.Time{}
	case s.busy:
		return nextCheck() // the pod is enqueued if it fails
	case time.Now().Before(s.due):
		return s.due
	}
	s.busy, s.due = true, nextCheck()
	e.Group.Go("expand volume "+v.PV.Name, func(ctx context.Context) { e.check(ctx, &v, s) })
	return s.due
}

// check looks at the claim of a mounted volume, and expands the volume if it has grown.
func (e *Expander) check(ctx context.Context, v *Volume, s *volume) {
	claim, d, err := e.look(ctx, v)
	if err != nil || d.verdict == wait { // an API server that is away is not the volume's failure
		e.mu.Lock()
		defer e.mu.Unlock()
		s.busy = false
		return
	}
	err = e.carryOut(ctx, v, s, claim, d)
	failed := err != nil && ctx.Err() == nil
	if failed {
		e.Record(v.Pod, nil, v1.EventTypeWarning, volumeResizeFailed,
			fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q : %v", v.PV.Name, err))
	}
	e.settle(v, s, err)
	if failed {
		e.Enqueue(ctx, v.Pod.UID)
	}
}

// settle records the outcome of an expansion.
func (e *Expander) settle(v *Volume, s *volume, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.busy = false
	if err == nil {
		s.failures, s.due = 0, nextCheck()
		if !s.inUse && s.streak.Recovered() {
			e.Log.Info("a volume was expanded after failures", "volume", v.PV.Name)
		}
		return
	}
	s.failures++
	s.due = time.Now().Add(retryPause.After(s.failures))
	if s.streak.FailedAs(err.Error(), time.Now()) {
		e.Log.Warn("a volume can't be expanded; trying again", "volume", v.PV.Name, "claim", v.Pod.Namespace+"/"+v.Claim, "err", err)
	}
}

// look gets the claim of a mounted volume, and decides. The volume is got only if the claim is being
// resized.
func (e *Expander) look(ctx context.Context, v *Volume) (*v1.PersistentVolumeClaim, decision, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	source := v.PV.Spec.CSI
	bytes, err := e.Drivers.Size(source.Driver, source.VolumeHandle)
	if err != nil {
		return nil, decision{}, err
	}
	claim, err := e.Objects.PersistentVolumeClaim(ctx, v.Pod, v.Claim)
	if err != nil {
		return nil, decision{}, err
	}
	have := *resource.NewQuantity(bytes, resource.BinarySI)
	if bytes == 0 { // the record is of an agent or a kubelet that wrote no size
		have = *claim.Status.Capacity.Storage()
		if err := e.Drivers.SetSize(ctx, source.Driver, source.VolumeHandle, have.Value()); err != nil {
			return nil, decision{}, err
		}
	}
	if !mayGrow(claim, have) {
		return claim, decision{}, nil
	}
	pv, err := e.Objects.PersistentVolume(ctx, v.Pod, v.PV.Name)
	if err != nil || !grownOnline(pv, have) {
		return nil, decision{}, err
	}
	if claim.Spec.VolumeName != pv.Name {
		return nil, decision{}, errors.New("the claim has another volume by now")
	}
	return claim, decide(claim, pv, have), nil
}
