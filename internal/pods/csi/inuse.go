package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Cluster is the attach-detach controller: it attaches volumes to this node, and detaches unused ones.
type Cluster interface {
	// SetVolumesInUse reports the volumes that must not be detached, sorted. all says that no others
	// are in use. It does not block.
	SetVolumesInUse(volumes []v1.UniqueVolumeName, all bool)
	// Attached reports whether a volume is attached, once the cluster has the list of SetVolumesInUse.
	Attached(ctx context.Context, volume v1.UniqueVolumeName) (bool, error)
}

// uniqueName returns the name of the volume in the status of a Node.
func (v volumeID) uniqueName() v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + v.driver + "^" + v.handle)
}

// markInUse reports a volume as in use, and then checks that it is attached.
func (m *Manager) markInUse(ctx context.Context, v volumeID, uid pod.UID) error {
	if m.Cluster == nil {
		return nil
	}
	m.mu.Lock()
	news := m.wanted[v] == nil
	if news {
		m.wanted[v] = map[pod.UID]time.Time{}
	}
	if _, known := m.wanted[v][uid]; !known {
		m.wanted[v][uid] = time.Now()
	}
	m.mu.Unlock()
	if news {
		m.reportInUse()
	}
	attached, err := m.Cluster.Attached(ctx, v.uniqueName())
	switch {
	case err != nil:
		return fmt.Errorf("find out whether %s is attached to this node: %w", v, err)
	case !attached:
		return &Waiting{"the volume to be attached to this node"}
	default:
		return nil
	}
}

// Attached enqueues the pods that want attachable volumes, after the cluster attached some.
func (m *Manager) Attached(ctx context.Context) {
	wanting := map[pod.UID]bool{}
	m.mu.Lock()
	for _, pods := range m.wanted {
		for uid := range pods {
			wanting[uid] = true
		}
	}
	m.mu.Unlock()
	for uid := range wanting {
		m.Enqueue(ctx, uid)
	}
}

// reportInUse reports the volumes that are wanted, published or staged to the cluster.
func (m *Manager) reportInUse() {
	if m.Cluster == nil {
		return
	}
	m.inUseMu.Lock()
	defer m.inUseMu.Unlock()
	err := m.refresh()
	if err != nil {
		m.Log.Warn("can't look which CSI volumes are in use; those that were stay attached", "err", err)
	}
	inUse := map[v1.UniqueVolumeName]bool{}
	m.mu.Lock()
	for v := range m.wanted {
		inUse[v.uniqueName()] = true
	}
	m.mu.Unlock()
	copies, all := m.index.attached(inUse)
	for dir, r := range copies {
		if m.isStaged(dir) {
			inUse[r.id().uniqueName()] = true
		}
	}
	m.Cluster.SetVolumesInUse(slices.Sorted(maps.Keys(inUse)), err == nil && all)
}
