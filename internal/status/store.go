package status

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/pod"
)

// Store holds the newest status of every pod and tells readers when one changes.
type Store struct {
	mu       sync.Mutex
	statuses map[pod.UID]v1.PodStatus
	watchers map[chan struct{}]struct{}
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{statuses: map[pod.UID]v1.PodStatus{}, watchers: map[chan struct{}]struct{}{}}
}

// Get returns the status of a pod. The caller must not change what it points to.
func (s *Store) Get(uid pod.UID) (v1.PodStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, ok := s.statuses[uid]
	return status, ok
}

// Tell hands the status of a pod to f, if there is one. No newer one is set before f has
// returned: whoever passes a status on like that never comes after one who sets the
// next, and passes on that. f must not block, nor call the store.
func (s *Store) Tell(uid pod.UID, f func(v1.PodStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status, ok := s.statuses[uid]; ok {
		f(status)
	}
}

// Set stores the status of a pod and tells whether it is another one than before.
func (s *Store) Set(uid pod.UID, status v1.PodStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.statuses[uid]; ok && equality.Semantic.DeepEqual(before, status) {
		return false
	}
	s.statuses[uid] = status
	s.tell()
	return true
}

// Forget drops the status of a pod that is gone.
func (s *Store) Forget(uid pod.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.statuses, uid)
	s.tell()
}

// Touch tells the watchers that something beside a status changed.
func (s *Store) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell()
}

func (s *Store) tell() {
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// Watch returns a channel that says "look again" after every change, and a
// function that ends the watch. A reader that is slow is told once, not often.
func (s *Store) Watch() (changed <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	return w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}
}
