package volume

import "berth/internal/lib/pod"

// Path is where a volume of a pod is, if it was set up since the agent started.
func (m *Manager) Path(uid pod.UID, name string) (string, bool) {
	at, ok := m.loadPlace(uid, name)
	return at.path, ok && at.path != ""
}
