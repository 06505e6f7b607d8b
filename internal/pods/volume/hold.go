package volume

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// A pod holds a persistent volume from before it is mounted until it is unmounted. The record says so,
// so that after a restart the agent knows which pod has a volume of access mode ReadWriteOncePod.

// isReadWriteOncePod reports whether a volume is for one pod at a time. In a cluster, claim and volume
// agree; without one, the claim may have been edited since.
func isReadWriteOncePod(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	only := []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	return slices.Equal(claim.Spec.AccessModes, only) || slices.Equal(pv.Spec.AccessModes, only)
}

// hold makes the pod a holder of a persistent volume. If the volume is for one pod and another one
// holds it, hold returns an error, and the pod is enqueued when the holder releases it. A pod that
// holds a volume keeps it, even if the access mode was changed since.
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

// holder returns another pod that holds a volume than the one that asks.
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

// stopWaiting removes a pod from those that wait for volumes.
func (m *Manager) stopWaiting(uid pod.UID) {
	m.holdMu.Lock()
	defer m.holdMu.Unlock()
	for has, waiting := range m.waiting {
		if delete(waiting, uid); len(waiting) == 0 {
			delete(m.waiting, has)
		}
	}
}

// enqueueWaiting enqueues the pods that wait for a volume of a pod that released its volumes.
func (m *Manager) enqueueWaiting(ctx context.Context, uid pod.UID) {
	m.holdMu.Lock()
	waiting := m.waiting[uid]
	delete(m.waiting, uid)
	m.holdMu.Unlock()
	for waits := range waiting {
		m.cfg.Enqueue(ctx, waits)
	}
}
