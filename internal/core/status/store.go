package status

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/lib/pod"
)

// Store holds the newest status of every pod and notifies readers of changes.
type Store struct {
	mu          sync.Mutex
	statuses    map[pod.UID]v1.PodStatus
	watchers    map[pod.UID]map[chan struct{}]struct{}
	subscribers []func(pod.UID)
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{statuses: map[pod.UID]v1.PodStatus{}, watchers: map[pod.UID]map[chan struct{}]struct{}{}}
}

// Get returns the status of a pod. The caller must not change what it points to.
func (s *Store) Get(uid pod.UID) (v1.PodStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, ok := s.statuses[uid]
	return status, ok
}

// WithLock calls f with the status of a pod, if there is one. No newer status is set before f has
// returned, so a status that f passes on can't overtake a newer one. f must not block, nor call the
// store.
func (s *Store) WithLock(uid pod.UID, f func(v1.PodStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status, ok := s.statuses[uid]; ok {
		f(status)
	}
}

// Set stores the status of a pod and reports whether it differs from the one before.
func (s *Store) Set(uid pod.UID, status v1.PodStatus) bool {
	if !s.replace(uid, status) {
		return false
	}
	s.notify(uid)
	return true
}

func (s *Store) replace(uid pod.UID, status v1.PodStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.statuses[uid]; ok && equality.Semantic.DeepEqual(before, status) {
		return false
	}
	s.statuses[uid] = status
	return true
}

// Forget drops the status of a pod that is gone.
func (s *Store) Forget(uid pod.UID) {
	s.mu.Lock()
	_, known := s.statuses[uid]
	delete(s.statuses, uid)
	s.mu.Unlock()
	if known {
		s.notify(uid)
	}
}

// notify informs watchers and subscribers that the status of a pod changed. The lock is not held
// while subscribers are called: they may read the store.
func (s *Store) notify(uid pod.UID) {
	s.mu.Lock()
	for w := range s.watchers[uid] {
		select {
		case w <- struct{}{}:
		default: // it has not read the last signal yet
		}
	}
	subscribers := s.subscribers
	s.mu.Unlock()
	for _, f := range subscribers {
		f(uid)
	}
}

// Subscribe has f called with the UID of each pod whose status changes from now on. f must not
// block.
func (s *Store) Subscribe(f func(pod.UID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(slices.Clone(s.subscribers), f)
}

// Watch returns a channel that gets a signal after every change of the status of a
// pod, and a function that ends the watch. Signals to a slow reader are combined into one.
func (s *Store) Watch(uid pod.UID) (changed <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[uid] == nil {
		s.watchers[uid] = map[chan struct{}]struct{}{}
	}
	s.watchers[uid][w] = struct{}{}
	return w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.watchers[uid], w); len(s.watchers[uid]) == 0 {
			delete(s.watchers, uid)
		}
	}
}
