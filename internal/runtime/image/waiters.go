package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/internal/lib/pod"
)

// key identifies a pull: an image, and the hash of the credentials of the pods that wait for
// it.
type key struct{ image, secrets string }

// entry is a pull that containers wait for. It exists as long as they do.
type entry struct {
	waiters  map[waiter]waitState
	turn     *turn              // of the pull that runs
	cancel   context.CancelFunc // of the pull that runs; nil if none does
	askedAt  time.Time          // since when it waits for credentials; zero: it does not
	err      error              // of the last pull
	failedAt time.Time
	backoff  time.Duration // from failedAt to the next try
}

// waiter is a container that waits for its image. It waits for one pull at a time.
type waiter struct {
	uid       pod.UID
	container string
}

// waitState is the state of a waiter.
type waitState int

const (
	requested waitState = iota
	served              // the pull that it asked for succeeded
)

// pods adds the pods that wait for the image to uids, each once.
func (e *entry) pods(uids []pod.UID) []pod.UID {
	for who := range e.waiters {
		if !slices.Contains(uids, who.uid) {
			uids = append(uids, who.uid)
		}
	}
	return uids
}

// Release removes the waiters of a pod that ends. A pull without waiters is canceled.
func (m *Manager) Release(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, e := range m.images {
		for who := range e.waiters {
			if who.uid == uid {
				m.stopWaiting(k, who)
			}
		}
	}
}

// stopWaitingAll removes a waiter from all pulls, because its image is present.
func (m *Manager) stopWaitingAll(who waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.images {
		m.stopWaiting(k, who)
	}
}

// stopWaiting removes a waiter from a pull, if it waits for it, and cancels the pull after
// the last. The caller holds the lock.
func (m *Manager) stopWaiting(k key, who waiter) {
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

// Loaded records images that were loaded from an archive: all pods may use them.
func (m *Manager) Loaded(ctx context.Context, images []string) error {
	var problems []error
	for _, image := range images {
		if err := m.loaded(ctx, image); err != nil {
			problems = append(problems, fmt.Errorf("%s was loaded, but may not be used by all pods: %w", image, err))
		}
	}
	m.Recheck(ctx)
	return errors.Join(problems...)
}

func (m *Manager) loaded(ctx context.Context, image string) error {
	if m.Records == nil {
		return nil
	}
	ref, err := m.Runtime.ImageRef(ctx, image)
	if err != nil || ref == "" {
		return err
	}
	return m.Records.Loaded(image, ref)
}

// Recheck enqueues every pod that waits for an image: some images may have come by
// another way than a pull.
func (m *Manager) Recheck(ctx context.Context) {
	m.mu.Lock()
	var uids []pod.UID
	for _, e := range m.images {
		uids = e.pods(uids)
	}
	m.mu.Unlock()
	for _, uid := range uids {
		m.Enqueue(ctx, uid)
	}
}
