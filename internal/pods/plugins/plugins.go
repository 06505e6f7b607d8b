// Package plugins registers the plugins of this machine: programs that add a capability to the node,
// such as CSI drivers. A plugin puts a socket into the plugin directory and serves the kubelet's
// plugin registration API there. The handler of its type accepts or refuses it.
//
// Events of the directory only trigger a new listing: the sockets that exist count. A socket that does
// not answer is retried with backoff. One that was created anew is another plugin, whatever its name.
// Of several sockets with one name, as there are while a plugin is replaced, the last one that
// registered is current; when it goes, another one registers again.
//
// Only Run writes the state of the directory.
package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/podfile"
	"berth/internal/lib/run"
)

// Handler registers the plugins of one type.
type Handler interface {
	// Validate returns an error if a plugin with these properties is not acceptable.
	Validate(name, endpoint string, versions []string) error
	// Register adds a plugin, which serves at endpoint.
	Register(ctx context.Context, name, endpoint string, versions []string) error
	// Unregister is called after the current socket of a name has gone. Calls for one name are never
	// concurrent.
	Unregister(name string)
}

// Config is checked by New.
type Config struct {
	Dir      string // where plugins put their sockets
	Handlers map[string]Handler
	Log      *slog.Logger
}

// Watcher registers the plugins in a directory.
type Watcher struct {
	Config
	registry *registry
}

// New checks the configuration.
func New(c Config) (*Watcher, error) {
	if !filepath.IsAbs(c.Dir) || len(c.Handlers) == 0 || c.Log == nil {
		return nil, errors.New("watch for plugins: an absolute folder, handlers and a log are required")
	}
	return &Watcher{c, &registry{names: map[key]*nameEntry{}, sockets: map[string]bool{}}}, nil
}

// Sockets returns the sockets in the directory, and for each whether its plugin is registered.
func (w *Watcher) Sockets() map[string]bool {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	return maps.Clone(w.registry.sockets)
}

// relistInterval is the time after which a failed listing of the directory is retried.
const relistInterval = 10 * time.Second

// Run registers plugins until the context ends. They stay registered then: the next agent finds their
// sockets.
func (w *Watcher) Run(ctx context.Context) {
	group := run.NewGroup(ctx, w.Log)
	defer group.Stop()
	known := map[string]*socketWorker{}
	w.retryWatch(ctx, func(works func()) error { return w.watch(ctx, group, known, works) })
}

// retryWatch calls watch until it returns no error. It logs the first failure of a row and the
// recovery.
func (w *Watcher) retryWatch(ctx context.Context, watch func(works func()) error) {
	var streak logonce.Streak
	works := func() {
		if streak.Recovered() {
			w.Log.Info("plugins are looked for again", "dir", w.Dir)
		}
	}
	for ctx.Err() == nil {
		err := watch(works)
		if err == nil {
			return
		}
		if streak.Failed(time.Now()) {
			w.Log.Warn("can't look for plugins; trying again", "dir", w.Dir, "err", err)
		}
		_ = run.Sleep(ctx, relistInterval)
	}
}

// watch lists the directory after each event, and calls works after each success. It returns nil only
// when the context ends.
func (w *Watcher) watch(ctx context.Context, group *run.Group, known map[string]*socketWorker, works func()) error {
	if err := os.MkdirAll(w.Dir, 0o750); err != nil {
		return err
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer notify.Close() //nolint:errcheck // it has nothing to write
	if err := notify.Add(w.Dir); err != nil {
		return err
	}
	for {
		sockets, err := list(w.Dir)
		if err != nil {
			return err
		}
		works()
		w.reconcile(group, known, sockets)
		select {
		case e, ok := <-notify.Events:
			if !ok || (e.Name == w.Dir && e.Has(fsnotify.Remove)) {
				return errors.New("the folder was removed")
			}
		case err := <-notify.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // the next listing finds what was missed
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// socketID distinguishes a socket from an earlier one on the same path.
type socketID struct {
	inode uint64
	made  int64
}

// maxSockets bounds the number of plugins, since each has a goroutine, and pods that have the
// directory as a hostPath can make sockets.
const maxSockets = 1000

// list returns the sockets in a folder.
func list(dir string) (map[string]socketID, error) {
	out := map[string]socketID{}
	err := podfile.Each(dir, ".", func(e fs.DirEntry) error {
		if e.Type()&fs.ModeSocket == 0 || strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(out) == maxSockets {
			return fmt.Errorf("%s has more than %d sockets: remove those that are of no plugin", dir, maxSockets)
		}
		out[filepath.Join(dir, e.Name())] = socketIDOf(info)
		return nil
	})
	return out, err
}

// socketWorker is the goroutine of one socket.
type socketWorker struct {
	socketID
	cancel context.CancelFunc
	done   chan struct{}
}

// reconcile starts a goroutine for each new socket, and ends those of sockets that are gone.
func (w *Watcher) reconcile(group *run.Group, known map[string]*socketWorker, sockets map[string]socketID) {
	for socket, a := range known {
		if sockets[socket] != a.socketID {
			a.cancel()
		}
	}
	for socket, id := range sockets {
		before := known[socket]
		if before != nil && before.socketID == id {
			continue
		}
		ctx, leave := context.WithCancel(group.Context())
		now := &socketWorker{socketID: id, cancel: leave, done: make(chan struct{})}
		known[socket] = now
		group.Go("plugin at "+socket, func(whole context.Context) {
			defer close(now.done)
			defer leave()
			if before != nil {
				<-before.done
			}
			w.registry.setSocket(socket, false)
			defer w.registry.dropSocket(socket)
			w.registerLoop(ctx, whole, socket)
		})
	}
	for socket := range known {
		if _, there := sockets[socket]; !there {
			delete(known, socket)
		}
	}
}

// retryPause is the pause before a plugin that could not be registered is tried again.
var retryPause = backoff.Exponential{First: 100 * time.Millisecond, Max: time.Minute}

// registerLoop registers a plugin, and unregisters it when its socket is gone.
func (w *Watcher) registerLoop(ctx, whole context.Context, socket string) {
	failures, streak := 0, logonce.Streak{}
	for {
		p, held, err := w.register(ctx, whole, socket)
		if err == nil {
			w.registry.setSocket(socket, true)
			w.Log.Info("a plugin is registered", "type", p.kind, "name", p.name, "socket", socket)
			streak.Recovered() // every registration is logged
			failures = 0
			select {
			case <-held.reregister: // the socket that replaced this one is gone
				w.registry.forget(held)
				w.registry.setSocket(socket, false)
				continue
			case <-ctx.Done():
			}
			if whole.Err() == nil {
				w.registry.remove(held)
				w.Log.Info("a plugin is gone", "type", p.kind, "name", p.name, "socket", socket)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		if streak.FailedAs(err.Error(), time.Now()) {
			w.Log.Warn("can't register a plugin; trying again", "socket", socket, "err", err)
		}
		failures++
		if run.Sleep(ctx, retryPause.After(failures)) != nil {
			return
		}
	}
}

// register asks a plugin for its properties, registers it, and notifies it of the result. A plugin stays
// registered if it was not notified because whole, the context of the agent, has ended.
func (w *Watcher) register(ctx, whole context.Context, socket string) (plugin, *registeredSocket, error) {
	c, err := dial(socket)
	if err != nil {
		return plugin{}, nil, err
	}
	defer c.close()
	p, err := c.info(ctx)
	if err != nil {
		return plugin{}, nil, fmt.Errorf("ask the plugin what it is: %w", err)
	}
	handler := w.Handlers[p.kind]
	var held *registeredSocket
	if handler == nil {
		err = fmt.Errorf("plugins of type %q are not supported", p.kind)
	} else if err = handler.Validate(p.name, p.endpoint, p.versions); err == nil {
		held, err = w.registry.add(key{p.kind, p.name}, handler, func() error {
			return handler.Register(ctx, p.name, p.endpoint, p.versions)
		})
	}
	if err != nil {
		err = fmt.Errorf("%s %q: %w", p.kind, p.name, err)
	}
	if notifyErr := c.notify(ctx, err); notifyErr != nil && err == nil {
		if whole.Err() == nil {
			w.registry.remove(held)
		}
		err = fmt.Errorf("notify plugin %q that it is registered: %w", p.name, notifyErr)
	}
	return p, held, err
}
