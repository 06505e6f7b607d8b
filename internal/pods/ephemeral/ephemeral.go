// Package ephemeral remembers the containers that were added to running static pods,
// to look into them. A manifest can't have any, and there is no API server that
// would hold them: without this memory, an agent that is restarted would stop them
// as containers that nobody wants.
//
// The Store is the only writer of its file. A disk that is full does not keep anybody from
// looking into a pod: at worst, the container is stopped when the agent is restarted before
// there is room. All is kept by UID, so it is over with the pod.
package ephemeral

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

// Store remembers containers by pod.
type Store struct {
	file *statefile.File

	mu   sync.Mutex
	pods map[pod.UID][]v1.EphemeralContainer // slices are never written to
}

// Open reads what an earlier agent left at path. What can't be read of it is left out: at
// worst, the containers of somebody who is debugging are stopped.
func Open(file *statefile.File, log *slog.Logger) (*Store, error) {
	if file == nil || log == nil {
		return nil, errors.New("ephemeral: a file and a log are needed")
	}
	s := &Store{file: file, pods: map[pod.UID][]v1.EphemeralContainer{}}
	text, err := os.ReadFile(file.Path())
	if err == nil {
		s.pods, err = salvage.Entries[pod.UID, []v1.EphemeralContainer](text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("some containers that were added for debugging are forgotten", "file", file.Path(), "err", err)
	}
	return s, nil
}

// Of returns the containers that were added to a pod, the oldest first.
func (s *Store) Of(uid pod.UID) []v1.EphemeralContainer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// Add remembers one more.
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

// Forget drops those of a pod that is no more.
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

// save makes pods what is remembered, on the disk as soon as that can be.
func (s *Store) save(pods map[pod.UID][]v1.EphemeralContainer) error {
	text, err := json.Marshal(pods)
	if err != nil {
		return fmt.Errorf("remember the containers added for debugging: %w", err)
	}
	s.pods = pods
	_ = s.file.Save(text) // which tries again
	return nil
}
