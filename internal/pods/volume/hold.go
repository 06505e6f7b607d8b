package volume

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// A pod holds a persistent volume from before it is mounted until nothing of it is. That
// is written down, see record, so that an agent which was away knows who has a volume that
// is for one pod (ReadWriteOncePod): not who asks first, but who has it.

// isReadWriteOncePod tells whether only one pod may have a volume: in a cluster, claim and volume say
// the same; without one, the claim may have been edited since.
func isReadWriteOncePod(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	only := []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	return slices.Equal(claim.Spec.AccessModes, only) || slices.Equal(pv.Spec.AccessModes, only)
}

// hold makes the pod one that has a persistent volume, unless that is for one pod, and
// another one has it. Who must wait is told when that one lets go. What a pod has, it
// keeps, also if others have it from before it was for one.
func (j *job) hold(v *v1.Volume, pv string, forOne bool) error {
	j.m.holdMu.Lock()
	defer j.m.holdMu.Unlock()
	if known, _ := j.m.previousPlace(j.pod.UID, v.Name); forOne && known.pv != pv {
		uid, has, err := j.m.holder(pv, j.pod.UID)
		if err != nil {
			return fmt.Errorf("find out whether another pod has it: %w", err)
		}
		if uid != "" {
			if j.m.waiting[uid] == nil {
				j.m.waiting[uid] = map[pod.UID]bool{}
			}
			j.m.waiting[uid][j.pod.UID] = true
			return fmt.Errorf("volume uses the ReadWriteOncePod access mode and is already in use by another pod: %s", has.Pod)
		}
	}
	return j.writeRecord(v, place{source: sourceOf(v), pv: pv})
}

// holder finds a pod that holds a volume, other than the one who asks.
func (m *Manager) holder(pv string, asks pod.UID) (pod.UID, record, error) {
	uids, _, err := m.holdersOf(pv)
	if err != nil {
		return "", record{}, err
	}
	for _, uid := range uids {
		if uid != asks {
			return uid, m.holders.recordOf(uid, pv), nil
		}
	}
	return "", record{}, nil
}

// stopWaiting is told that a pod wants no volume any more.
func (m *Manager) stopWaiting(uid pod.UID) {
	m.holdMu.Lock()
	defer m.holdMu.Unlock()
	for has, waiting := range m.waiting {
		if delete(waiting, uid); len(waiting) == 0 {
			delete(m.waiting, has)
		}
	}
}

// enqueueWaiting tells those who wait for a pod to let go of a volume.
func (m *Manager) enqueueWaiting(ctx context.Context, uid pod.UID) {
	m.holdMu.Lock()
	waiting := m.waiting[uid]
	delete(m.waiting, uid)
	m.holdMu.Unlock()
	for waits := range waiting {
		m.cfg.Enqueue(ctx, waits)
	}
}
