package image

import (
	"context"
	"slices"
	"time"

	"berth/internal/pod"
)

// key is a pull: an image, and what the pods that wait for it can show by themselves.
type key struct{ image, secrets string }

// entry is an image that somebody waits for. It is there as long as they do.
type entry struct {
	waiters  map[waiter]stand
	turn     *turn              // of the pull that runs
	cancel   context.CancelFunc // of the pull that runs; nil if none does
	err      error              // of the last pull
	failedAt time.Time
	backoff  time.Duration // from failedAt to the next try
}

// waiter is a container that waits for its image. It waits for one at a time.
type waiter struct {
	uid       pod.UID
	container string
}

// stand is how things stand with a waiter.
type stand int

const (
	asked  stand = iota
	served       // the pull that it asked for succeeded
)

// pods adds those who wait for the image to uids, each once.
func (e *entry) pods(uids []pod.UID) []pod.UID {
	for who := range e.waiters {
		if !slices.Contains(uids, who.uid) {
			uids = append(uids, who.uid)
		}
	}
	return uids
}

// Release ends the wait of a pod that goes. A pull that nobody waits for any more ends.
func (m *Manager) Release(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, e := range m.images {
		for who := range e.waiters {
			if who.uid == uid {
				m.leave(k, who)
			}
		}
	}
}

// leaveAll ends the wait of one who has what it wants.
func (m *Manager) leaveAll(who waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.images {
		m.leave(k, who)
	}
}

// leave ends the wait of one, if it waits. The caller holds the lock.
func (m *Manager) leave(k key, who waiter) {
	e := m.images[k]
	if e == nil {
		return
	}
	if _, waits := e.waiters[who]; !waits {
		return
	}
	delete(e.waiters, who)
	if len(e.waiters) > 0 {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	delete(m.images, k)
}

// Recheck wakes every pod that waits for an image: some may have arrived by
// another way than a pull.
func (m *Manager) Recheck(ctx context.Context) {
	m.mu.Lock()
	var uids []pod.UID
	for _, e := range m.images {
		uids = e.pods(uids)
	}
	m.mu.Unlock()
	for _, uid := range uids {
		m.Wake(ctx, uid)
	}
}
