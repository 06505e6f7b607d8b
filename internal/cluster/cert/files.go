package cert

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"berth/internal/lib/logonce"
)

// fileCheckInterval is the shortest time between two checks whether the files have changed.
const fileCheckInterval = time.Second

// files is a serving certificate in files that another program writes and renews. The files are
// checked when a client connects, so no goroutine is needed.
type files struct {
	cert, key string
	log       *slog.Logger

	mu        sync.Mutex
	pair      *tls.Certificate // the last valid one
	seen      [2]os.FileInfo   // the files that pair was read from
	checkedAt time.Time
	streak    logonce.Streak // of files that can't be used
}

func newFiles(c ServingConfig) (*files, error) {
	f := &files{cert: c.CertFile, key: c.KeyFile, log: c.Log, checkedAt: time.Now()}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	return f, nil
}

func (f *files) run(ctx context.Context) { <-ctx.Done() }

// certificate returns the certificate of the files, or the last valid one if they can't be used:
// certificate and key are replaced one after the other, and do not match for a moment.
func (f *files) certificate() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checkedAt) < fileCheckInterval {
		return f.pair, nil
	}
	f.checkedAt = time.Now()
	err := f.load()
	switch {
	case err != nil && f.streak.Failed(f.checkedAt):
		f.log.Warn("the serving certificate was changed and can't be used; the one before stays", "err", err)
	case err == nil && f.streak.Recovered():
		f.log.Info("the serving certificate can be used again")
	}
	return f.pair, nil
}

// load reads the files if they have changed.
func (f *files) load() error {
	var now [2]os.FileInfo
	changed := false
	for i, path := range []string{f.cert, f.key} {
		info, err := os.Stat(path) // follows links
		if err != nil {
			return err
		}
		was := f.seen[i]
		changed = changed || was == nil || !os.SameFile(was, info) || !was.ModTime().Equal(info.ModTime()) || was.Size() != info.Size()
		now[i] = info
	}
	if !changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("%s with key %s: %w", f.cert, f.key, err)
	}
	f.pair, f.seen = &pair, now
	return nil
}
