// Package statefile writes state files that the agent can go on without: a disk that is full
// or read-only makes it forget them at a restart, and never keeps it from starting or working.
//
// An Entry is a file or directory on the disk. State that could not be written stays in memory;
// the Keeper tries again with growing pauses, on Retry, and once more at the end. The log has
// one line per entry when it begins to fail, and one when it is written.
//
// Load is the one treatment of such a file that is damaged: it is set aside, the log says what is
// lost, and the agent goes on.
//
// State that must be on the disk before the agent acts on it (the volumes of CSI drivers, the user
// ids of a pod) is in records, one for each pod or volume. A record that can't be written or read
// (ReadRecord) is the error of that pod or volume.
package statefile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
)

// retryPause is the pause between two attempts to write entries that failed.
var retryPause = backoff.Exponential{First: time.Second, Max: time.Minute}

// Config configures a Keeper.
type Config struct {
	Log *slog.Logger
	// Full is called at each attempt that fails because the disk has no room left. It must
	// not block, and may be nil.
	Full func()
}

// Keeper retries entries that could not be written. Its entries may be saved from several
// goroutines, also while Run does not run.
type Keeper struct {
	Config

	wake chan struct{} // holds a value if an entry failed since Run received the last one
	room chan struct{} // likewise, if Retry was called

	mu      sync.Mutex
	unsaved map[*Entry]struct{}
}

// New returns a Keeper without entries.
func New(c Config) (*Keeper, error) {
	if c.Log == nil {
		return nil, errors.New("statefile: a log is needed")
	}
	if c.Full == nil {
		c.Full = func() {}
	}
	return &Keeper{Config: c, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), unsaved: map[*Entry]struct{}{}}, nil
}

// IsFull reports whether a write failed because the disk has no room left.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// CantWrite reports whether a write failed because of the disk: it is full, read-only or
// broken. Trying again may help.
func CantWrite(err error) bool {
	return IsFull(err) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO)
}

// Retry is called when there may be room on the disk again: Run tries failed entries at once.
func (k *Keeper) Retry() { run.Notify(k.room) }

// Run retries entries that could not be written, until ctx ends, and a last time then.
func (k *Keeper) Run(ctx context.Context) {
	failures, attempt := 1, (<-chan time.Time)(nil) // the first failure is the one that wakes Run
	for {
		select {
		case <-k.wake:
			if attempt == nil {
				attempt = time.After(retryPause.After(failures))
			}
			continue
		case <-attempt:
		case <-k.room:
		case <-ctx.Done():
			k.saveAll()
			return
		}
		if k.saveAll() {
			failures, attempt = 1, nil
			continue
		}
		failures++
		attempt = time.After(retryPause.After(failures))
	}
}

// saveAll tries all that is not written, and reports whether nothing is left.
func (k *Keeper) saveAll() bool {
	k.mu.Lock()
	entries := make([]*Entry, 0, len(k.unsaved))
	for e := range k.unsaved {
		entries = append(entries, e)
	}
	k.mu.Unlock()
	done := true
	for _, e := range entries {
		done = e.Save() == nil && done
	}
	return done
}

// Entry is a file or directory that is written again until it is on the disk.
type Entry struct {
	keeper *Keeper
	what   string
	write  func() error

	mu     sync.Mutex // held while it is written
	streak logonce.Streak
}

// Entry returns an entry that is called what in the log and is written by write, which is
// never called twice at a time and must not call the Entry.
func (k *Keeper) Entry(what string, write func() error) *Entry {
	return &Entry{keeper: k, what: what, write: write}
}

// Save writes the entry. If that fails, it is logged and tried again later: the error is
// for callers that want to know, and needs no action.
func (e *Entry) Save() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.write()
	e.keeper.record(e, err)
	switch {
	case err != nil && e.streak.Failed(time.Now()):
		e.keeper.Log.Warn("can't write "+e.what+" to the disk; trying again", "err", err)
	case err == nil && e.streak.Recovered():
		e.keeper.Log.Info("wrote " + e.what + " to the disk at last")
	}
	return err
}

// record records whether an entry is on the disk.
func (k *Keeper) record(e *Entry, err error) {
	k.mu.Lock()
	if err == nil {
		delete(k.unsaved, e)
	} else {
		k.unsaved[e] = struct{}{}
	}
	k.mu.Unlock()
	if err != nil {
		run.Notify(k.wake)
	}
	if IsFull(err) {
		k.Full()
	}
}
