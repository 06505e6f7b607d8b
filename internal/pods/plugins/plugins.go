// Package plugins finds the plugins of this machine: programs that add something to
// the node, such as a driver of volumes. A plugin puts a socket into a folder, and is
// asked there what it is. Whoever knows its type decides whether it is taken, and the
// plugin is told.
//
// What happens in the folder is only a hint to look: what counts is which sockets
// are there. A socket that is there and does not answer is asked again after a pause
// that grows. One that is made anew is another plugin, of the same name or not. Of
// several sockets of one name, as they are there while a plugin is replaced, the one
// that registered last counts; when it goes, another one takes its place.
//
// Only Run writes what is known of the folder.
package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"berth/internal/lib/podfile"
	"berth/internal/lib/run"
)

// Handler takes the plugins of one type.
type Handler interface {
	// Validate tells what is wrong with what a plugin says of itself.
	Validate(name, endpoint string, versions []string) error
	// Register takes a plugin, which answers at endpoint.
	Register(ctx context.Context, name, endpoint string, versions []string) error
	// Unregister is told that its socket is gone, and that there is no other one of that
	// name which came later. For one name, nothing is called at the same time.
	Unregister(name string)
}

// Config is what a Watcher is made of.
type Config struct {
	Dir      string // where plugins put their sockets
	Handlers map[string]Handler
	Log      *slog.Logger
}

// Watcher attends to the plugins in a folder.
type Watcher struct {
	Config
	registry *registry
}

// New checks the configuration.
func New(c Config) (*Watcher, error) {
	if !filepath.IsAbs(c.Dir) || len(c.Handlers) == 0 || c.Log == nil {
		return nil, errors.New("watch for plugins: an absolute folder, handlers and a log are required")
	}
	return &Watcher{c, &registry{names: map[key]*nameEntry{}}}, nil
}

// relistInterval is how soon the folder is looked at again when it could not be.
const relistInterval = 10 * time.Second

// Run attends to the plugins until the context ends. They stay registered then: the
// next agent finds their sockets again.
func (w *Watcher) Run(ctx context.Context) {
	group := run.NewGroup(ctx, w.Log)
	defer group.Stop()
	known := map[string]*socketWorker{}
	w.retryWatch(ctx, func(works func()) error { return w.watch(ctx, group, known, works) })
}

// retryWatch watches again and again until there is no error. Each time that it begins
// to fail is told.
func (w *Watcher) retryWatch(ctx context.Context, watch func(works func()) error) {
	failing := false
	works := func() {
		if failing {
			w.Log.Info("plugins are looked for again", "folder", w.Dir)
			failing = false
		}
	}
	for ctx.Err() == nil {
		err := watch(works)
		if err == nil {
			return
		}
		if !failing {
			w.Log.Warn("can't look for plugins; trying again", "folder", w.Dir, "err", err)
			failing = true
		}
		select {
		case <-time.After(relistInterval):
		case <-ctx.Done():
		}
	}
}

// watch looks at the folder whenever something happens there, and tells when it could. It
// returns nil at the end of the context only.
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
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // which is a hint like any other
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// socketID tells a socket from another one at the same place.
type socketID struct {
	inode uint64
	made  int64
}

// maxSockets is how many plugins are attended to, each by a goroutine. Pods have the folder
// as a hostPath.
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

// socketWorker is a socket that somebody attends to.
type socketWorker struct {
	socketID
	cancel context.CancelFunc
	done   chan struct{}
}

// reconcile sees to it that each socket has somebody, and that those whose socket is
// gone leave.
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
			w.registerLoop(ctx, whole, socket)
		})
	}
	for socket := range known {
		if _, there := sockets[socket]; !there {
			delete(known, socket)
		}
	}
}

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Minute
)

// registerLoop registers a plugin, and unregisters it when its socket is gone.
func (w *Watcher) registerLoop(ctx, whole context.Context, socket string) {
	pause, said := minBackoff, ""
	for {
		p, held, err := w.register(ctx, socket)
		if err == nil {
			w.Log.Info("a plugin is registered", "type", p.kind, "name", p.name, "socket", socket)
			pause, said = minBackoff, ""
			select {
			case <-held.reregister: // the one that had taken its place is gone
				w.registry.forget(held)
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
		if said != err.Error() { // one that has just begun to listen is refused for another reason next
			said = err.Error()
			w.Log.Warn("can't register a plugin; trying again", "socket", socket, "err", err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxBackoff)
		case <-ctx.Done():
			return
		}
	}
}

// register asks a plugin what it is, takes it, and tells it so.
func (w *Watcher) register(ctx context.Context, socket string) (plugin, *registeredSocket, error) {
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
	if told := c.notify(ctx, err); told != nil && err == nil {
		w.registry.remove(held)
		err = fmt.Errorf("tell plugin %q that it is registered: %w", p.name, told)
	}
	return p, held, err
}
