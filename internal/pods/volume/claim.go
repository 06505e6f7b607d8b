package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// setupClaim sets up the persistent volume that is bound to a claim. That is done once in the life of an
// agent: a running pod keeps its volume, whatever becomes of the claim. Only its size may change, see expand.go.
func setupClaim(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	return j.claimed(ctx, v, v.PersistentVolumeClaim.ClaimName, v.PersistentVolumeClaim.ReadOnly, anyOwner)
}

// setupEphemeral sets up the claim that the cluster has made for this pod. A claim of the same name
// that does not belong to the pod is refused.
func setupEphemeral(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	return j.claimed(ctx, v, ephemeralClaim(j.pod, v.Name), false, func(c *v1.PersistentVolumeClaim) error {
		if !metav1.IsControlledBy(c, j.pod) {
			return fmt.Errorf("persistentvolumeclaim %q was not made for this pod: it belongs to another object; rename the pod or the volume", c.Name)
		}
		return nil
	})
}

// ephemeralClaim returns the name of the claim that the cluster makes for a volume of a pod.
func ephemeralClaim(p *v1.Pod, volume string) string { return p.Name + "-" + volume }

func anyOwner(*v1.PersistentVolumeClaim) error { return nil }

// pollInterval is the time between two looks at something that another component has to do first, and
// that it does not announce: binding a claim, attaching a volume.
const pollInterval = 5 * time.Second

func (j *job) claimed(ctx context.Context, v *v1.Volume, name string, readOnly bool, check func(*v1.PersistentVolumeClaim) error) (place, error) {
	if at, ok := j.alreadySetUp(v.Name); ok {
		j.expandOnline(at, name, readOnly)
		return at, nil
	}
	claim, pv, err := j.persistentVolume(ctx, name, check)
	if err != nil {
		if errors.Is(err, ErrMissing) {
			j.renew(time.Now().Add(pollInterval))
		}
		return place{}, err
	}
	var at place
	j.claim = claim
	defer func() { j.claim = nil }()
	if err = j.hold(v, pv.Name, isReadWriteOncePod(claim, pv)); err == nil {
		at, err = j.persistent(ctx, v.Name, pv, j.onlyRead(name, readOnly))
	}
	if err != nil {
		return place{}, fmt.Errorf("persistent volume %q: %w", pv.Name, err)
	}
	at.readOnly, at.pv, at.group = at.readOnly || readOnly, pv.Name, j.groupOf(pv)
	j.expandOnline(at, name, readOnly)
	return at, nil
}

// onlyRead reports whether all volumes of the pod that name the claim are read-only. They share one
// mount.
func (j *job) onlyRead(claim string, readOnly bool) bool {
	used := usedVolumes(&j.pod.Spec)
	for i := range j.pod.Spec.Volumes {
		v := &j.pod.Spec.Volumes[i]
		if c := v.PersistentVolumeClaim; c != nil && c.ClaimName == claim && used[v.Name] {
			readOnly = readOnly && c.ReadOnly
		}
	}
	return readOnly
}

// isBlock reports whether a persistent volume is a block device (volumeMode Block).
func isBlock(pv *v1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// persistentVolume returns a claim of the pod's namespace and the persistent volume that is bound to
// it. It checks that each names the other.
func (j *job) persistentVolume(
	ctx context.Context, name string, check func(*v1.PersistentVolumeClaim) error,
) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	claim, err := j.m.cfg.Objects.PersistentVolumeClaim(ctx, j.pod, name)
	if err != nil {
		return nil, nil, fetchError("persistentvolumeclaim", name, err)
	}
	if err := check(claim); err != nil {
		return nil, nil, err
	}
	// Without a cluster there is no binding controller: a claim names its volume, and has no phase.
	alone := claim.Status.Phase == ""
	switch {
	case claim.Spec.VolumeName == "" || (!alone && claim.Status.Phase != v1.ClaimBound):
		return nil, nil, missingf("waiting for persistentvolumeclaim %q to be bound to a volume", name)
	case claim.DeletionTimestamp != nil && j.pod.Status.Phase != v1.PodRunning:
		return nil, nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	}
	pv, err := j.m.cfg.Objects.PersistentVolume(ctx, j.pod, claim.Spec.VolumeName)
	if err != nil {
		return nil, nil, fetchError("persistentvolume", claim.Spec.VolumeName, err)
	}
	if pv, err = translated(pv); err != nil {
		return nil, nil, fmt.Errorf("persistentvolume %q: %w", claim.Spec.VolumeName, err)
	}
	switch to := pv.Spec.ClaimRef; {
	case to == nil && !alone:
		return nil, nil, missingf("persistentvolume %q is not bound to claim %q", pv.Name, name)
	case to != nil && (to.Name != claim.Name || to.Namespace != claim.Namespace || (to.UID != "" && to.UID != claim.UID)):
		return nil, nil, fmt.Errorf("persistentvolume %q is bound to another claim, %s/%s", pv.Name, to.Namespace, to.Name)
	}
	if err := j.onThisNode(pv.Spec.NodeAffinity); err != nil {
		return nil, nil, fmt.Errorf("persistentvolume %q: %w", pv.Name, err)
	}
	return claim, pv, nil
}

// onThisNode returns an error if the node affinity of a volume does not match this node.
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
