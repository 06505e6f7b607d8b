package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

const (
	defaultMax    = 2000
	defaultPerPod = 100
)

// StoreConfig configures a Store.
type StoreConfig struct {
	// Path is the file that events are written to, beside a second one whose name
	// ends in .old. Empty: events are only in memory.
	Path   string
	State  *statefile.Keeper // writes the file, and retries on a full disk; required with a Path
	Log    *slog.Logger
	Max    int // how many events are kept; 0 means 2000
	PerPod int // how many events of one pod are kept; 0 means 100
}

// Store holds the newest events and notifies readers of new ones.
type Store struct {
	max, perPod int
	journal     journal
	entry       *statefile.Entry // the journal; nil: events are only in memory
	log         *slog.Logger

	mu       sync.Mutex
	events   []*v1.Event // the newest is at the end
	watchers map[chan struct{}]struct{}
	unsaved  [][]byte // lines that are not in the journal yet: the newest, max at most
}

// OpenStore returns a store with the events of the journal. A journal that can't be read or written
// is logged, and no error: events are of use also in memory.
func OpenStore(c StoreConfig) (*Store, error) {
	switch {
	case c.Log == nil:
		return nil, errors.New("event: Log is needed")
	case c.Path != "" && c.State == nil:
		return nil, errors.New("event: a Path needs a State")
	case c.Max < 0 || c.PerPod < 0:
		return nil, fmt.Errorf("event: Max is %d and PerPod is %d, and neither can be below 0", c.Max, c.PerPod)
	}
	s := &Store{
		max: c.Max, perPod: c.PerPod, log: c.Log,
		journal:  journal{path: c.Path, limit: journalLimit},
		watchers: map[chan struct{}]struct{}{},
	}
	if s.max == 0 {
		s.max = defaultMax
	}
	if s.perPod == 0 {
		s.perPod = defaultPerPod
	}
	if c.Path != "" {
		s.entry = c.State.Entry("events", s.flush)
	}
	s.restore()
	return s, nil
}

// restore reads the journal. A torn or damaged line is left out.
func (s *Store) restore() {
	lines, err := s.journal.read()
	if err != nil {
		s.log.Warn("events from before are not all there", "err", err)
	}
	for _, line := range lines {
		var e v1.Event
		if err := json.Unmarshal(line, &e); err == nil && e.Name != "" {
			s.put(&e)
		}
	}
}

// Add adds an event, or replaces an older one of its name. The caller must not write to it any
// more. There is one caller at a time: the Recorder.
func (s *Store) Add(e *v1.Event) {
	s.mu.Lock()
	s.put(e)
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default: // the reader has not received the last signal yet
		}
	}
	s.mu.Unlock()
	s.write(e) // readers do not wait for the disk
}

// put adds e, and removes the oldest event of the pod and the oldest of all if there are too many.
func (s *Store) put(e *v1.Event) {
	s.events = slices.DeleteFunc(s.events, func(old *v1.Event) bool {
		return old.Name == e.Name && old.Namespace == e.Namespace
	})
	s.events = append(s.events, e)
	ofPod, oldest := 0, -1
	for i, other := range s.events {
		if other.InvolvedObject.UID == e.InvolvedObject.UID {
			ofPod++
			if oldest < 0 {
				oldest = i
			}
		}
	}
	if ofPod > s.perPod {
		s.events = slices.Delete(s.events, oldest, oldest+1)
	}
	if len(s.events) > s.max {
		s.events = slices.Delete(s.events, 0, 1)
	}
}

// write appends e to the journal, after the lines that could not be written before.
func (s *Store) write(e *v1.Event) {
	if s.entry == nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		s.log.Warn("an event can't be written down", "event", e.Name, "err", err)
		return
	}
	s.mu.Lock()
	s.unsaved = append(s.unsaved, line)
	if over := len(s.unsaved) - s.max; over > 0 {
		s.unsaved = slices.Delete(s.unsaved, 0, over)
	}
	s.mu.Unlock()
	_ = s.entry.Save() // statefile retries
}

// flush appends the unsaved lines to the journal, the oldest first. There is one caller at a time.
func (s *Store) flush() error {
	for {
		s.mu.Lock()
		lines := s.unsaved
		s.unsaved = nil
		s.mu.Unlock()
		if len(lines) == 0 {
			return nil
		}
		for n, line := range lines {
			if err := s.journal.append(line); err != nil {
				s.mu.Lock()
				s.unsaved = append(lines[n:len(lines):len(lines)], s.unsaved...)
				s.mu.Unlock()
				return err
			}
		}
	}
}

// List returns events, the newest last. An empty namespace, name or UID matches all. The name is
// that of a pod or, if no event of such a pod exists, the name in its manifest, without the name of
// the node. The caller must not write to the events.
func (s *Store) List(namespace, name string, uid pod.UID) []*v1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var exact, byManifest []*v1.Event
	for _, e := range s.events {
		about := &e.InvolvedObject
		switch {
		case namespace != "" && e.Namespace != namespace, uid != "" && about.UID != uid:
		case name != "" && about.Kind != "Pod":
		case name == "" || about.Name == name:
			exact = append(exact, e)
		case about.Name == name+"-"+e.Source.Host:
			byManifest = append(byManifest, e)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return byManifest
}

// Watch returns a channel that receives after every change, until ctx ends. Several changes before
// a slow reader receives are one signal.
func (s *Store) Watch(ctx context.Context) <-chan struct{} {
	w := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	})
	return w
}
