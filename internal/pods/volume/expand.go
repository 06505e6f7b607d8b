package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
	"berth/internal/pods/expansion"
)

// expands reports whether volumes of the pod are expanded. The claims of a static pod are files, which
// nothing resizes.
func (j *job) expands() bool { return j.m.cfg.Expander != nil && !pod.IsStatic(j.pod) }

// claimSize returns the size of the claim whose volume is being set up, in bytes; 0: it is not known.
func (j *job) claimSize() int64 {
	if j.claim == nil {
		return 0
	}
	return j.claim.Status.Capacity.Storage().Value()
}

// expandAtMount returns the function that expands the volume of the claim after it was published, or nil.
func (j *job) expandAtMount(pv *v1.PersistentVolume, readOnly bool) func(context.Context) error {
	if j.claim == nil || !j.expands() {
		return nil
	}
	claim := j.claim
	return func(ctx context.Context) error {
		j.task.setStep(fmt.Sprintf("expand persistent volume %q", pv.Name))
		return j.m.cfg.Expander.AtMount(ctx, j.expandable(pv, claim.Name, readOnly), claim)
	}
}

// expandOnline expands a mounted volume if it has grown. The pod does not wait for it.
func (j *job) expandOnline(at place, claim string, readOnly bool) {
	if at.grows != nil && j.expands() {
		j.renew(j.m.cfg.Expander.Online(j.expandable(at.grows, claim, j.onlyRead(claim, readOnly))))
	}
}

func (j *job) expandable(pv *v1.PersistentVolume, claim string, readOnly bool) expansion.Volume {
	return expansion.Volume{Pod: j.pod, Claim: claim, PV: pv, Dir: j.volumePath(volumekind.CSI.Dir(), pv.Name), ReadOnly: readOnly}
}
