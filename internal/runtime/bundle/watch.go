package bundle

import (
	"context"
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// watchFolder sends a notice after each change in dir, until ctx ends. It closes the
// channel when it returns.
func watchFolder(ctx context.Context, dir string, notices chan<- struct{}) error {
	defer close(notices)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer func() { _ = w.Close() }()
	if err := w.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-w.Events:
			if !open {
				return fmt.Errorf("watch %s: ended", dir)
			}
		case _, open := <-w.Errors: // events were lost: one notice makes up for all
			if !open {
				return fmt.Errorf("watch %s: ended", dir)
			}
		}
		select {
		case notices <- struct{}{}:
		default: // one is waiting already
		}
	}
}
