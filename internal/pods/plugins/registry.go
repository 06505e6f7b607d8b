package plugins

import (
	"slices"
	"sync"
)

// key identifies a plugin by its type and name.
type key struct{ kind, name string }

// registry holds the registered sockets by plugin.
type registry struct {
	mu    sync.Mutex
	names map[key]*nameEntry

	sockets map[string]bool // by path, of all sockets that were found: whether it is registered
}

// setSocket records whether a socket is registered.
func (h *registry) setSocket(socket string, registered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sockets[socket] = registered
}

// dropSocket forgets a socket that is gone.
func (h *registry) dropSocket(socket string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sockets, socket)
}

// nameEntry holds the sockets of one plugin. Its lock is held while the handler is called, which may
// take as long as the plugin does; other plugins have locks of their own.
type nameEntry struct {
	users int // holders of mu and waiters; guarded by registry.mu

	mu      sync.Mutex
	all     []*registeredSocket // in the order of their registration
	current *registeredSocket   // the socket that the handler uses; nil: none
}

// registeredSocket is one socket of a registered plugin.
type registeredSocket struct {
	key
	handler    Handler
	reregister chan struct{} // capacity 1: the socket has to register again
}

// add registers a socket, which becomes the current one of its plugin.
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

// remove unregisters a socket. If it was the current one, the latest of the others registers again.
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
		default: // it is signaled already
		}
	}
}

// forget removes a socket that is about to register again.
func (h *registry) forget(held *registeredSocket) {
	n, release := h.lock(held.key)
	defer release()
	n.remove(held)
}

func (n *nameEntry) remove(held *registeredSocket) {
	n.all = slices.DeleteFunc(n.all, func(other *registeredSocket) bool { return other == held })
}

// lock locks the entry of a plugin, and returns the function that unlocks it.
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
