package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

const (
	// saveInterval is the time between two writes in the background, saveRetryInterval the time after
	// a failed one.
	saveInterval      = time.Second
	saveRetryInterval = 10 * time.Second
	// unclaimedTTL is how long results from before a restart are kept for containers that are not
	// watched.
	unclaimedTTL = time.Hour

	stateVersion = 1 // incremented when the format of the file changes
)

// entry is the saved health of one container.
type entry struct {
	Pod     pod.UID `json:"pod"`
	Started *bool   `json:"started,omitempty"`
	Ready   *bool   `json:"ready,omitempty"`
	Dead    string  `json:"dead,omitempty"`
	Grace   *int64  `json:"grace,omitempty"`
}

func (e entry) health() pod.Health {
	return pod.Health{Started: e.Started, Ready: e.Ready, Dead: e.Dead, Grace: e.Grace}
}

// state is the content of the state file.
type state struct {
	Version    int              `json:"version"`
	Containers map[string]entry `json:"containers"`
}

// saveLoop writes the state file in the background when it is out of date, once per saveInterval.
func (m *Manager) saveLoop(ctx context.Context) {
	for {
		select {
		case <-m.saveNeeded:
		case <-ctx.Done():
			return
		}
		pause := saveInterval
		if !m.commit() {
			pause = saveRetryInterval
			m.markStale()
		}
		if run.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// commit writes the state file if it is out of date, and then lets Health return the new values. It
// returns whether the file is up to date. If the write fails, Health returns the new values
// nevertheless: a full disk must not keep pods from becoming ready. Of concurrent calls, one writes
// for all.
func (m *Manager) commit() bool {
	m.saving.Lock()
	defer m.saving.Unlock()
	if !m.stale.Swap(false) {
		return true // a failed write leaves it stale
	}
	saved := m.save()
	if !saved {
		m.stale.Store(true)
	}
	return saved
}

// save writes the state file, and reports whether it succeeded.
func (m *Manager) save() bool {
	s := m.state(time.Now())
	err := m.file.write(s)
	m.setShown(s)
	switch {
	case err != nil && m.file.streak.Failed(time.Now()):
		m.config.Log.Warn("can't write down the results of probes; trying again. If the agent is restarted meanwhile, containers are not ready until they are probed again", "err", err)
	case err == nil && m.file.streak.Recovered():
		m.config.Log.Info("the results of probes are written down again")
	}
	return err == nil
}

// state returns the content that the state file should have.
func (m *Manager) state(now time.Time) state {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.startedAt) > unclaimedTTL {
		clear(m.saved)
	}
	s := state{Version: stateVersion, Containers: make(map[string]entry, len(m.saved)+len(m.containers))}
	for id, e := range m.saved {
		s.Containers[id] = e
	}
	for id, c := range m.containers {
		h := c.health
		s.Containers[id] = entry{Pod: c.uid, Started: h.Started, Ready: h.Ready, Dead: h.Dead, Grace: h.Grace}
	}
	return s
}

// setShown lets Health return what the state file holds.
func (m *Manager) setShown(s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range s.Containers {
		if c := m.containers[id]; c != nil {
			c.shown = fitToSpec(e.health(), c.spec)
		}
	}
}

// stateFile reads and writes the state file.
type stateFile struct {
	path   string         // empty: no state is kept
	wrote  []byte         // its content
	streak logonce.Streak // of failed writes
}

// load reads the file. Invalid entries are skipped: the next checks find their results again.
func (f *stateFile) load(log *slog.Logger) map[string]entry {
	containers := map[string]entry{}
	if f.path == "" {
		return containers
	}
	_ = statefile.Load(log, f.path, "some results of earlier probes are lost; their containers are not ready until they are probed again", func(raw []byte) error {
		var s struct {
			Version    int             `json:"version"`
			Containers json.RawMessage `json:"containers"`
		}
		err := salvage.Fields(raw, &s)
		if err == nil && s.Version > stateVersion {
			err = fmt.Errorf("its version is %d, and %d is known", s.Version, stateVersion)
		}
		if len(s.Containers) > 0 {
			var unread error
			containers, unread = salvage.Entries[string, entry](s.Containers)
			err = errors.Join(err, unread)
		}
		if err == nil {
			f.wrote = raw
		}
		return err
	})
	return containers
}

// write replaces the file if its content differs. It is not synced to disk, since neither it nor any
// container has to survive a crash of the machine.
func (f *stateFile) write(s state) error {
	if f.path == "" {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode %s: %w", f.path, err)
	}
	if bytes.Equal(raw, f.wrote) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Replace(f.path, raw, 0o600); err != nil {
		return err
	}
	f.wrote = raw
	return nil
}
