package volume

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// groupAnnotation holds the group that may use a persistent volume.
const groupAnnotation = "pv.beta.kubernetes.io/gid"

// groupOf returns the group in the annotation of a persistent volume, or nil if there is none, or if
// it is not valid.
func (j *job) groupOf(pv *v1.PersistentVolume) *int64 {
	text, ok := pv.Annotations[groupAnnotation]
	if !ok {
		return nil
	}
	gid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || gid < 0 {
		j.m.cfg.Log.Warn("a persistent volume names a group that is none", "pod", pod.Ref(j.pod), "volume", pv.Name, groupAnnotation, text)
		return nil
	}
	return &gid
}

// Groups returns the supplemental groups that the containers of a pod need to use its volumes, after
// Setup.
func (m *Manager) Groups(uid pod.UID) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []int64
	for _, at := range m.pods[uid] {
		if at.group != nil {
			out = append(out, *at.group)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
