package source

import (
	"fmt"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// watcher watches a folder. Its events are hints: each leads to a scan of the folder.
type watcher interface {
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	// Watches reports whether dir is being watched. The kernel ends a watch by
	// itself when its folder goes away.
	Watches(dir string) bool
	// Watch watches dir, and only dir, from now on.
	Watch(dir string) error
}

// inotify is a watcher by the kernel's inotify.
type inotify struct{ *fsnotify.Watcher }

func newInotify() (inotify, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return inotify{}, fmt.Errorf("start watching files: %w", err)
	}
	return inotify{w}, nil
}

func (w inotify) Events() <-chan fsnotify.Event { return w.Watcher.Events }

func (w inotify) Errors() <-chan error { return w.Watcher.Errors }

func (w inotify) Watches(dir string) bool { return slices.Contains(w.WatchList(), dir) }

func (w inotify) Watch(dir string) error {
	for _, old := range w.WatchList() {
		// The watch may have ended between the two calls: the error does not matter.
		_ = w.Remove(old)
	}
	if err := w.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return nil
}

// noWatcher sends no events, for a machine that has no inotify instances left. Changes
// are found by the periodic scans.
type noWatcher struct{}

func (noWatcher) Events() <-chan fsnotify.Event { return nil }

func (noWatcher) Errors() <-chan error { return nil }

func (noWatcher) Watches(string) bool { return true }

func (noWatcher) Watch(string) error { return nil }
