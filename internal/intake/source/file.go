package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/pod"
)

// FileConfig says where the manifests are.
type FileConfig struct {
	Path     string        // a folder, or a single file; absolute
	Node     string        // the name of this node
	Interval time.Duration // between two scans of the folder without an event
	State    string        // the file that keeps the last good objects; empty for none
	Log      *slog.Logger
	// AbsentIsEmpty: a folder that does not exist counts as empty, as for the kubelet. Otherwise it can't be read, and the
	// pods that are known stay.
	AbsentIsEmpty bool

	// Objects is called with all objects that pods may refer to, at the start and after
	// each change, before the pods are sent. It may be nil.
	Objects func(ctx context.Context, objects []runtime.Object)
	// Complete returns a copy of a pod that is completed from the objects, such as with the
	// overhead of its RuntimeClass. nil: pods are complete.
	Complete func(*v1.Pod) *v1.Pod
}

// File is a folder of manifests: every *.yaml, *.yml and *.json in it. Its
// folders, hidden files and backups are left alone.
type File struct {
	FileConfig
	in intake
}

// NewFile checks the configuration.
func NewFile(c FileConfig) (*File, error) {
	err := checkNode(c.Node)
	if !filepath.IsAbs(c.Path) {
		err = errors.Join(err, fmt.Errorf("the path %q is not absolute", c.Path))
	}
	if c.Interval <= 0 {
		err = errors.Join(err, fmt.Errorf("looking every %s is not possible", c.Interval))
	}
	if c.Log == nil {
		err = errors.Join(err, errors.New("there is no log"))
	}
	if err != nil {
		return nil, fmt.Errorf("make the source of files: %w", err)
	}
	c.Path = filepath.Clean(c.Path)
	c.Node = strings.ToLower(c.Node)
	return &File{FileConfig: c, in: intake{node: c.Node, source: pod.SourceFile}}, nil
}

// Run sends snapshots until the context ends.
func (f *File) Run(ctx context.Context, out chan<- pod.Snapshot) {
	w, err := newInotify()
	if err != nil {
		f.Log.Warn("changes to manifests will be seen late", "every", f.Interval, "err", err)
		f.run(ctx, out, noWatcher{})
		return
	}
	defer func() {
		if err := w.Close(); err != nil {
			f.Log.Warn("could not stop watching files", "err", err)
		}
	}()
	f.run(ctx, out, w)
}

func (f *File) run(ctx context.Context, out chan<- pod.Snapshot, w watcher) {
	l := &fileLoop{
		File: f, watch: w, send: sender{out: out, objects: f.Objects, complete: f.Complete},
		store:   lastGood{path: f.State, in: f.in},
		files:   map[string]*file{},
		writing: map[string]time.Time{}, progress: make(chan struct{}, 1),
		missing:  map[string]time.Time{},
		unlinked: map[string]bool{}, rewritten: map[string]bool{},
		schedule: schedule{interval: f.Interval},
	}
	if !l.restore(ctx) || !l.firstScan(ctx) {
		return
	}
	timer := time.NewTimer(time.Until(l.schedule.next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.Events():
			if !l.concerns(e.Name) {
				continue
			}
			if _, known := l.files[e.Name]; known && e.Has(fsnotify.Remove) {
				l.unlinked[e.Name] = true
			}
			l.schedule.event(time.Now())
		case <-w.Errors():
			// Events were lost: something happened.
			l.schedule.event(time.Now())
		case <-timer.C:
			now := time.Now()
			select {
			case again := <-l.startScan(now):
				if !l.finish(ctx, now, again) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
		timer.Reset(time.Until(l.schedule.next))
	}
}
