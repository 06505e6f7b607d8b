package volume

import "berth/internal/lib/pod"

// storePlace remembers the place of a volume that is set up.
func (m *Manager) storePlace(uid pod.UID, volume string, at place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == nil {
		m.pods[uid] = map[string]place{}
	}
	m.pods[uid][volume] = at
}

func (m *Manager) loadPlace(uid pod.UID, volume string) (place, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.pods[uid][volume]
	return at, ok
}

// alreadySetUp returns the place of a volume that was set up by this agent and needs no update.
func (j *job) alreadySetUp(volume string) (place, bool) {
	at, ok := j.m.loadPlace(j.pod.UID, volume)
	return at, ok && !at.republish
}

func (m *Manager) deletePlace(uid pod.UID, volume string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods[uid], volume)
}

func (m *Manager) deletePlaces(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// Path returns the path of a volume, if it was set up since the agent started.
func (m *Manager) Path(uid pod.UID, name string) (string, bool) {
	at, ok := m.loadPlace(uid, name)
	return at.path, ok && at.path != ""
}
