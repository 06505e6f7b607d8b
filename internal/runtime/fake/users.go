package fake

import (
	"sync"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// UserNamespaces implements execute.UserNamespaces. It allocates the same ids to every pod, and
// records which pods have them.
type UserNamespaces struct {
	mu        sync.Mutex
	allocated map[pod.UID]bool
}

// Allocated reports whether ids are allocated to a pod.
func (u *UserNamespaces) Allocated(uid pod.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.allocated[uid]
}

// Allocate implements execute.UserNamespaces.
func (u *UserNamespaces) Allocate(uid pod.UID) (render.IDs, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.allocated == nil {
		u.allocated = map[pod.UID]bool{}
	}
	u.allocated[uid] = true
	return render.IDs{First: 65536, Count: 65536}, nil
}

// Release implements execute.UserNamespaces.
func (u *UserNamespaces) Release(uid pod.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.allocated, uid)
}
