package csi

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"berth/internal/pod"
)

// Users are the pods that have volumes of drivers, by what is on disk. They can be
// ended only while their drivers run.
func (m *Manager) Users() (map[pod.UID]bool, error) {
	all, err := m.look("")
	out := map[pod.UID]bool{}
	for _, dir := range slices.Concat(slices.Collect(maps.Keys(all.pods)), slices.Collect(maps.Keys(all.unread))) {
		below, inside := strings.CutPrefix(dir, m.PodsDir+string(filepath.Separator))
		if uid, _, _ := strings.Cut(below, string(filepath.Separator)); inside {
			out[pod.UID(uid)] = true
		}
	}
	return out, err
}
