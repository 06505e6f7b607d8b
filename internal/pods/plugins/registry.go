package plugins

import (
	"slices"
	"sync"
)

// key is what a plugin is registered by.
type key struct{ kind, name string }

// registry are the sockets behind each name.
type registry struct {
	mu    sync.Mutex
	names map[key]*nameEntry
}

// nameEntry are those of one name. Their lock is held while the handler is called, which may
// take as long as a plugin does: other names have their own.
type nameEntry struct {
	users int // that hold the lock or wait for it; holders.mu guards it

	mu      sync.Mutex
	all     []*registeredSocket // in the order in which they came
	current *registeredSocket   // the one that the handler knows; nil: none
}

// registeredSocket is a socket that is registered by a name.
type registeredSocket struct {
	key
	handler    Handler
	reregister chan struct{} // capacity 1: it is to register once more
}

// add registers a socket by a name. It is the one that counts from now on.
func (h *registry) add(k key, handler Handler, register func() error) (*registeredSocket, error) {
	n, release := h.lock(k)
	defer release()
	if err := register(); err != nil {
		return nil, err
	}
	held := &registeredSocket{key: k, handler: handler, reregister: make(chan struct{}, 1)}
	n.all, n.current = append(n.all, held), held
	return held, nil
}

// remove ends that. If no socket counts any more, the latest of the others is to register
// once more.
func (h *registry) remove(held *registeredSocket) {
	n, release := h.lock(held.key)
	defer release()
	n.remove(held)
	if n.current == held {
		held.handler.Unregister(held.name)
		n.current = nil
	}
	if n.current == nil && len(n.all) > 0 {
		select {
		case n.all[len(n.all)-1].reregister <- struct{}{}:
		default: // it is about to
		}
	}
}

// forget forgets a socket that is about to register once more.
func (h *registry) forget(held *registeredSocket) {
	n, release := h.lock(held.key)
	defer release()
	n.remove(held)
}

func (n *nameEntry) remove(held *registeredSocket) {
	n.all = slices.DeleteFunc(n.all, func(other *registeredSocket) bool { return other == held })
}

// lock waits for the turn at a name, and returns how to give it back.
func (h *registry) lock(k key) (*nameEntry, func()) {
	h.mu.Lock()
	n := h.names[k]
	if n == nil {
		n = &nameEntry{}
		h.names[k] = n
	}
	n.users++
	h.mu.Unlock()
	n.mu.Lock()
	return n, func() {
		n.mu.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		if n.users--; n.users == 0 && len(n.all) == 0 {
			delete(h.names, k)
		}
	}
}
