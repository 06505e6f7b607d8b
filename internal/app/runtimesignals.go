package app

import (
	"sync"

	"berth/internal/lib/run"
)

// runtimeSignals carry changes of the container runtime to the parts of the agent. They are made
// before the runtime, which sends them, and before the parts that receive them.
type runtimeSignals struct {
	cameUp   chan struct{} // closed when the runtime came up for the first time
	up       chan struct{} // holds a value if the runtime came up and no part has received it yet
	imported chan struct{} // likewise, if images were imported
	hints    chan struct{} // likewise, if the status of the runtime may have changed

	mu    sync.Mutex
	first bool     // whether cameUp is closed
	names []string // of imported images
}

func newRuntimeSignals() *runtimeSignals {
	return &runtimeSignals{cameUp: make(chan struct{}), up: make(chan struct{}, 1), imported: make(chan struct{}, 1), hints: make(chan struct{}, 1)}
}

func (s *runtimeSignals) notifyUp() {
	s.mu.Lock()
	if !s.first {
		s.first = true
		close(s.cameUp)
	}
	s.mu.Unlock()
	run.Notify(s.up)
}

func (s *runtimeSignals) notifyImported(names []string) {
	s.mu.Lock()
	s.names = append(s.names, names...)
	s.mu.Unlock()
	run.Notify(s.imported)
}

// takeImported returns the images that were imported since the last call.
func (s *runtimeSignals) takeImported() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.names
	s.names = nil
	return names
}
