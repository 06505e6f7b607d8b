package volume

import "berth/internal/lib/pod"

func (m *Manager) remember(uid pod.UID, volume string, at place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == nil {
		m.pods[uid] = map[string]place{}
	}
	m.pods[uid][volume] = at
}

func (m *Manager) known(uid pod.UID, volume string) (place, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.pods[uid][volume]
	return at, ok
}

// settled is a volume that needs no more than one round.
func (j *job) settled(volume string) (place, bool) {
	at, ok := j.m.known(j.pod.UID, volume)
	return at, ok && !at.again
}

func (m *Manager) forgetOne(uid pod.UID, volume string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods[uid], volume)
}

func (m *Manager) forget(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}
