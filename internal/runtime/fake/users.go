package fake

import (
	"sync"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// UserNamespaces give the same ids to every pod, and note who has them.
type UserNamespaces struct {
	mu    sync.Mutex
	taken map[pod.UID]bool
}

// Taken tells whether a pod has ids.
func (u *UserNamespaces) Taken(uid pod.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken[uid]
}

// Allocate implements execute.UserNamespaces.
func (u *UserNamespaces) Allocate(uid pod.UID) (render.IDs, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken == nil {
		u.taken = map[pod.UID]bool{}
	}
	u.taken[uid] = true
	return render.IDs{First: 65536, Count: 65536}, nil
}

// Release implements execute.UserNamespaces.
func (u *UserNamespaces) Release(uid pod.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.taken, uid)
}
