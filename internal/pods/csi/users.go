package csi

import (
	"path/filepath"
	"strings"

	"berth/internal/lib/pod"
)

// Users returns the pods that have volumes of CSI drivers, according to the disk. They can be deleted
// only while their drivers run.
func (m *Manager) Users() (map[pod.UID]bool, error) {
	err := m.refresh()
	out := map[pod.UID]bool{}
	for _, dir := range m.index.dirs() {
		below, inside := strings.CutPrefix(dir, m.PodsDir+string(filepath.Separator))
		if uid, _, _ := strings.Cut(below, string(filepath.Separator)); inside {
			out[pod.UID(uid)] = true
		}
	}
	return out, err
}
