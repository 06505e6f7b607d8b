package volume

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// setupClaim finds the persistent volume behind a claim, once in the life of an
// agent: what a running pod has, it keeps, whatever becomes of the claim.
func setupClaim(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	if at, ok := j.m.known(j.pod.UID, v.Name); ok {
		return at, nil
	}
	pv, err := j.persistentVolume(ctx, v.PersistentVolumeClaim.ClaimName)
	if err != nil {
		return place{}, err
	}
	at, err := j.persistent(v, pv)
	if err != nil {
		return place{}, fmt.Errorf("persistent volume %q: %w", pv.Name, err)
	}
	at.readOnly = v.PersistentVolumeClaim.ReadOnly
	return at, nil
}

// persistent is the table of kinds of persistent volumes.
func (j *job) persistent(v *v1.Volume, pv *v1.PersistentVolume) (place, error) {
	if pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock {
		return place{}, errors.New("volumeMode Block is not supported")
	}
	switch {
	case pv.Spec.HostPath != nil:
		return j.hostPath(v.Name, pv.Spec.HostPath)
	case pv.Spec.Local != nil:
		return j.local(pv, v.PersistentVolumeClaim.ReadOnly)
	default:
		return place{}, errors.New("its kind is not supported; these are: hostPath, local")
	}
}

// persistentVolume is the volume that is bound to a claim of the pod's namespace,
// checked from both sides.
func (j *job) persistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	claim, err := j.m.cfg.Objects.PersistentVolumeClaim(ctx, j.pod, name)
	if err != nil {
		return nil, fetchError("persistentvolumeclaim", name, err)
	}
	// Without a cluster nobody binds: a claim names its volume, and has no phase.
	alone := claim.Status.Phase == ""
	switch {
	case claim.Spec.VolumeName == "" || (!alone && claim.Status.Phase != v1.ClaimBound):
		return nil, missingf("persistentvolumeclaim %q is not bound to a volume", name)
	case claim.DeletionTimestamp != nil && j.pod.Status.Phase != v1.PodRunning:
		return nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	}
	pv, err := j.m.cfg.Objects.PersistentVolume(ctx, j.pod, claim.Spec.VolumeName)
	if err != nil {
		return nil, fetchError("persistentvolume", claim.Spec.VolumeName, err)
	}
	switch to := pv.Spec.ClaimRef; {
	case to == nil && !alone:
		return nil, missingf("persistentvolume %q is not bound to claim %q", pv.Name, name)
	case to != nil && (to.Name != claim.Name || to.Namespace != claim.Namespace || (to.UID != "" && to.UID != claim.UID)):
		return nil, fmt.Errorf("persistentvolume %q is bound to another claim, %s/%s", pv.Name, to.Namespace, to.Name)
	}
	if err := j.onThisNode(pv.Spec.NodeAffinity); err != nil {
		return nil, fmt.Errorf("persistentvolume %q: %w", pv.Name, err)
	}
	return pv, nil
}

// onThisNode refuses a volume that is on another machine.
func (j *job) onThisNode(a *v1.VolumeNodeAffinity) error {
	if a == nil || a.Required == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(a.Required)
	if err != nil {
		return fmt.Errorf("read its nodeAffinity: %w", err)
	}
	this := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: j.m.cfg.NodeName, Labels: j.m.cfg.NodeLabels()}}
	if !selector.Match(this) {
		return fmt.Errorf("it can't be used on node %s: its nodeAffinity asks for other labels", this.Name)
	}
	return nil
}
