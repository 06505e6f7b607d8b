// Package ephemeral stores the ephemeral containers of static pods. A manifest can't have any, and
// there is no API server that would store them: without this file, a restarted agent would stop them
// as unknown containers.
//
// The Store is the only writer of its file. If the disk is full, an ephemeral container runs
// nevertheless: at worst, it is stopped by a restart of the agent. Entries are by UID, and end with
// the pod.
package ephemeral

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

// Store holds the ephemeral containers of pods.
type Store struct {
	file *statefile.File

	mu   sync.Mutex
	pods map[pod.UID][]v1.EphemeralContainer // slices are never modified
}

// Open reads the file. Invalid entries are skipped: at worst, running ephemeral containers are
// stopped.
func Open(file *statefile.File, log *slog.Logger) (*Store, error) {
	if file == nil || log == nil {
		return nil, errors.New("ephemeral: a file and a log are needed")
	}
	s := &Store{file: file, pods: map[pod.UID][]v1.EphemeralContainer{}}
	_ = statefile.Load(log, file.Path(), "some containers that were added for debugging are forgotten", func(text []byte) (err error) {
		s.pods, err = salvage.Entries[pod.UID, []v1.EphemeralContainer](text)
		return err
	})
	return s, nil
}

// Of returns the ephemeral containers of a pod, the oldest first.
func (s *Store) Of(uid pod.UID) []v1.EphemeralContainer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// Add adds an ephemeral container to a pod.
func (s *Store) Add(uid pod.UID, c v1.EphemeralContainer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.pods[uid]
	if slices.ContainsFunc(before, func(b v1.EphemeralContainer) bool { return b.Name == c.Name }) {
		return fmt.Errorf("it has a container %q already", c.Name)
	}
	pods := maps.Clone(s.pods)
	pods[uid] = append(slices.Clip(before), c)
	return s.save(pods)
}

// Forget removes the containers of a pod that is gone.
func (s *Store) Forget(uid pod.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.pods[uid]; !known {
		return nil
	}
	pods := maps.Clone(s.pods)
	delete(pods, uid)
	return s.save(pods)
}

// save replaces the entries, in memory at once, and on the disk as soon as it can be written.
func (s *Store) save(pods map[pod.UID][]v1.EphemeralContainer) error {
	text, err := json.Marshal(pods)
	if err != nil {
		return fmt.Errorf("remember the containers added for debugging: %w", err)
	}
	s.pods = pods
	_ = s.file.Save(text) // a failed write is retried
	return nil
}
