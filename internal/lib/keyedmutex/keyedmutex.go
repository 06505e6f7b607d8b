// Package keyedmutex has a mutex for each key, for resources that several goroutines share, and whose
// number is not known before.
package keyedmutex

import (
	"context"
	"sync"
)

// Mutex is a set of mutexes, one for each key. The zero value is ready for use.
type Mutex[K comparable] struct {
	mu   sync.Mutex
	keys map[K]*lock
}

// lock is the mutex of one key. It is locked while slot is full.
type lock struct {
	slot  chan struct{} // capacity 1
	users int           // the holder and waiters; guarded by Mutex.mu
}

// Lock locks the mutex of a key, in the order of the calls, and returns the function that unlocks it. If
// the context ends first, Lock returns its cause.
func (m *Mutex[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l := m.enter(key)
	select {
	case l.slot <- struct{}{}:
		return func() { <-l.slot; m.leave(key, l) }, nil
	case <-ctx.Done():
		m.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

func (m *Mutex[K]) enter(key K) *lock {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.keys[key]
	if l == nil {
		l = &lock{slot: make(chan struct{}, 1)}
		if m.keys == nil {
			m.keys = map[K]*lock{}
		}
		m.keys[key] = l
	}
	l.users++
	return l
}

func (m *Mutex[K]) leave(key K, l *lock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(m.keys, key)
	}
}

// InUse returns the number of keys that are locked or waited for.
func (m *Mutex[K]) InUse() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys)
}
