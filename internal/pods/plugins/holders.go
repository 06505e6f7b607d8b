package plugins

import (
	"slices"
	"sync"
)

// key is what a plugin is registered by.
type key struct{ kind, name string }

// holders are the sockets behind each name.
type holders struct {
	mu sync.Mutex
	of map[key]*sockets
}

// sockets are those of one name. Their lock is held while the handler is called, which may
// take as long as a plugin does: other names have their own.
type sockets struct {
	users int // that hold the lock or wait for it; holders.mu guards it

	mu     sync.Mutex
	all    []*holder // in the order in which they came
	counts *holder   // the one that the handler knows; nil: none
}

// holder is a socket that is registered by a name.
type holder struct {
	key
	handler Handler
	again   chan struct{} // capacity 1: it is to register once more
}

// take registers a socket by a name. It is the one that counts from now on.
func (h *holders) take(k key, handler Handler, register func() error) (*holder, error) {
	n, release := h.lock(k)
	defer release()
	if err := register(); err != nil {
		return nil, err
	}
	held := &holder{key: k, handler: handler, again: make(chan struct{}, 1)}
	n.all, n.counts = append(n.all, held), held
	return held, nil
}

// leave ends that. If no socket counts any more, the latest of the others is to register
// once more.
func (h *holders) leave(held *holder) {
	n, release := h.lock(held.key)
	defer release()
	n.remove(held)
	if n.counts == held {
		held.handler.Unregister(held.name)
		n.counts = nil
	}
	if n.counts == nil && len(n.all) > 0 {
		select {
		case n.all[len(n.all)-1].again <- struct{}{}:
		default: // it is about to
		}
	}
}

// renew forgets a socket that is about to register once more.
func (h *holders) renew(held *holder) {
	n, release := h.lock(held.key)
	defer release()
	n.remove(held)
}

func (n *sockets) remove(held *holder) {
	n.all = slices.DeleteFunc(n.all, func(other *holder) bool { return other == held })
}

// lock waits for the turn at a name, and returns how to give it back.
func (h *holders) lock(k key) (*sockets, func()) {
	h.mu.Lock()
	n := h.of[k]
	if n == nil {
		n = &sockets{}
		h.of[k] = n
	}
	n.users++
	h.mu.Unlock()
	n.mu.Lock()
	return n, func() {
		n.mu.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		if n.users--; n.users == 0 && len(n.all) == 0 {
			delete(h.of, k)
		}
	}
}
