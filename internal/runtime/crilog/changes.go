package crilog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"

	"berth/internal/lib/run"
)

// changes notifies subscribers of changes in log folders. A notification carries no data, and
// several count as one, so that a busy log and a slow reader cost nothing.
type changes struct {
	log *slog.Logger

	// watching guards what is watched. It is another lock than that of the
	// subscribers, so that events are taken while a watch is added.
	watching sync.Mutex
	closed   bool
	inotify  *fsnotify.Watcher
	group    *run.Group

	mu      sync.Mutex
	folders map[string]map[chan struct{}]struct{}
}

// subscribe returns a channel that gets a value after something changed in the
// folder, and a function that ends that.
func (c *changes) subscribe(folder string) (<-chan struct{}, func(), error) {
	folder = filepath.Clean(folder)
	c.watching.Lock()
	defer c.watching.Unlock()
	if err := c.start(); err != nil {
		return nil, nil, err
	}
	// Also if it is watched already: it may have been made anew since.
	if err := c.inotify.Add(folder); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", folder, err)
	}
	subscriber := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folders[folder] == nil {
		c.folders[folder] = map[chan struct{}]struct{}{}
	}
	c.folders[folder][subscriber] = struct{}{}
	return subscriber, func() { c.unsubscribe(folder, subscriber) }, nil
}

func (c *changes) unsubscribe(folder string, subscriber chan struct{}) {
	c.watching.Lock()
	defer c.watching.Unlock()
	if !c.remove(folder, subscriber) || c.closed {
		return
	}
	// A folder that is gone took its watch with it.
	if err := c.inotify.Remove(folder); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
		c.log.Debug("end the watch of a log folder", "folder", folder, "err", err)
	}
}

// remove reports whether the folder has no subscriber left.
func (c *changes) remove(folder string, subscriber chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.folders[folder], subscriber)
	if len(c.folders[folder]) > 0 {
		return false
	}
	delete(c.folders, folder)
	return true
}

// start makes the inotify instance if there is none. watching is locked.
func (c *changes) start() error {
	if c.closed {
		return errors.New("the log reader is closed")
	}
	if c.inotify != nil {
		return nil
	}
	inotify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("make an inotify instance (see sysctl fs.inotify.max_user_instances): %w", err)
	}
	c.inotify = inotify
	c.group = run.NewGroup(context.Background(), c.log)
	c.group.Go("log changes", func(context.Context) { c.dispatch(inotify) })
	return nil
}

// dispatch ends when the inotify instance is closed.
func (c *changes) dispatch(inotify *fsnotify.Watcher) {
	for {
		select {
		case event, ok := <-inotify.Events:
			if !ok {
				return
			}
			c.notify(filepath.Dir(event.Name))
			if event.Has(fsnotify.Remove) {
				c.notify(event.Name) // the folder itself
			}
		case _, ok := <-inotify.Errors:
			if !ok {
				return
			}
			// Events were lost: all subscribers read again.
			c.notifyAll()
		}
	}
}

func (c *changes) notify(folder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wake(c.folders[folder])
}

func (c *changes) notifyAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, subscribers := range c.folders {
		wake(subscribers)
	}
}

func wake(subscribers map[chan struct{}]struct{}) {
	for s := range subscribers {
		select {
		case s <- struct{}{}:
		default: // a notification is pending
		}
	}
}

func (c *changes) close() error {
	c.watching.Lock()
	defer c.watching.Unlock()
	if c.closed || c.inotify == nil {
		c.closed = true
		return nil
	}
	c.closed = true
	err := c.inotify.Close()
	c.group.Stop()
	return err
}
