package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/pod"
)

// file is the state of one manifest of the folder.
type file struct {
	read     bool // it was read since the start, and the last time without an error
	sum      [sha256.Size]byte
	accepted []acceptedObject // in force
	refused  []pod.Refusal
}

// fileLoop is the state of a running File.
type fileLoop struct {
	*File
	watch    watcher
	send     sender
	store    lastGood
	schedule schedule

	files   map[string]*file
	writing map[string]time.Time // files that are open for writing, by when that was first seen
	// progress holds a value if a file was read and firstScan has not noticed yet.
	progress chan struct{}
	missing  map[string]time.Time // files that the last scan did not find, by when they were first missed
	mounted  bool                 // the folder was a mount point when it was last listed
	ready    bool                 // the folder was read at least once
	reported bool                 // a snapshot of the folder was sent at least once
	dirty    bool                 // there is a change to be reported
	watched  folderID

	// unlinked are known files that were removed since they were last read, and rewritten those of them that are there
	// again with the same content: that is how people restart static pods. A file that is replaced or renamed was
	// not removed: editors save files that way.
	unlinked, rewritten map[string]bool

	// Faults that last, each of which is logged once.
	folderFault, absentFault, watchFault, storeFault fault
}

// restore sends the pods of the state file, from before a restart.
func (l *fileLoop) restore(ctx context.Context) bool {
	m := l.store.load(l.Log)
	l.mounted = m.mounted
	for path, inForce := range m.accepted {
		if path == l.Path || filepath.Dir(path) == l.Path {
			l.files[path] = &file{accepted: inForce, refused: m.refused[path]}
		}
	}
	return l.sendRestored(ctx, false)
}

// sendRestored sends a Restore of the known files, if there is any pod or refusal in it.
func (l *fileLoop) sendRestored(ctx context.Context, unreadable bool) bool {
	s, objects := l.snapshot(pod.Restore)
	s.Unreadable = unreadable
	if len(s.Pods)+len(s.Refused) == 0 {
		l.send.sendObjects(ctx, objects)
		return true
	}
	return l.send.send(ctx, s, objects)
}

// firstScan scans the folder for the first time. The folder may be on a server that does not
// answer: it counts as unreadable after firstScanTimeout in which no file was read.
func (l *fileLoop) firstScan(ctx context.Context) bool {
	restored, objects := l.snapshot(pod.Restore)
	restored.Unreadable = true
	now := time.Now()
	scanDone := l.startScan(now)
	silence := time.NewTimer(firstScanTimeout)
	defer silence.Stop()
	for {
		select {
		case again := <-scanDone:
			return l.finish(ctx, now, again)
		case <-l.progress:
			silence.Reset(firstScanTimeout)
		case <-silence.C:
			if len(restored.Pods)+len(restored.Refused) > 0 && !l.send.send(ctx, restored, objects) {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// startScan scans the folder in a goroutine that has l to itself, but for the sender, until it
// sends how soon the next scan is due. The folder may be on a server that never answers: the
// end of the source does not wait for the goroutine.
func (l *fileLoop) startScan(now time.Time) <-chan time.Duration {
	scanDone := make(chan time.Duration, 1)
	go func() { scanDone <- l.scan(now) }()
	return scanDone
}

// finish sends the result of a scan, and schedules the next one. It returns false if the
// context ended first.
func (l *fileLoop) finish(ctx context.Context, now time.Time, again time.Duration) bool {
	switch {
	case !l.ready:
		if !l.sendRestored(ctx, true) {
			return false
		}
	case !l.reported && len(l.missing) > 0:
		// A file that vanished before the restart is not sent once more; one that
		// vanished just now would be.
	case l.dirty:
		if !l.report(ctx) {
			return false
		}
		l.reported = true
	}
	l.schedule.scanned(now, again)
	return true
}

// concerns reports whether an event may be about a manifest. Names with two dots
// are how Kubernetes swaps all files of a folder at once.
func (l *fileLoop) concerns(name string) bool {
	base := filepath.Base(name)
	return name == l.Path || isManifest(base) || strings.HasPrefix(base, "..")
}

// scan reads the folder once. It returns how soon the next scan is due, or zero if
// the usual interval will do.
func (l *fileLoop) scan(now time.Time) time.Duration {
	found, absent, err := l.list()
	if err == nil {
		err = l.checkMount(found)
	}
	if err != nil {
		l.folderFault.begin(l.Log, "manifests can't be read: nothing changes until they can", err)
		clear(l.missing)
		return folderRetryInterval
	}
	l.folderFault.end(l.Log, "manifests can be read again")
	l.dirty = l.dirty || !l.ready || l.mounted != found.mounted
	l.ready, l.mounted = true, found.mounted

	there := make(map[string]bool)
	again := time.Duration(0)
	if absent {
		again = folderRetryInterval
	}
	for _, path := range found.files {
		data, err := readManifest(path)
		select {
		case l.progress <- struct{}{}:
		default:
		}
		switch {
		case errors.Is(err, errUnsettled):
			there[path] = true
			again = recheckInterval
		case errors.Is(err, errWriting):
			there[path] = true
			if wait := l.waitForWriter(path, now); again == 0 {
				again = wait // else there is something more urgent
			}
		case errors.Is(err, fs.ErrNotExist) && !isLink(path):
			// The file was removed after it was listed.
		default:
			there[path] = true
			delete(l.writing, path)
			l.ingestFile(path, data, err)
		}
	}
	if l.forget(there, now) {
		again = recheckInterval
	}
	return again
}

// list lists the folder, and watches it. A folder that does not exist is listed as an empty one if AbsentIsEmpty.
func (l *fileLoop) list() (found listing, absent bool, err error) {
	found, err = list(l.Path)
	if l.AbsentIsEmpty && errors.Is(err, fs.ErrNotExist) {
		l.absentFault.begin(l.Log, "there is no folder of manifests: it counts as empty", err)
		return listing{}, true, nil
	}
	if err == nil && l.keepWatch(found) {
		// A change between the list and the watch sent no event.
		found, err = list(l.Path)
	}
	if err == nil {
		l.absentFault.end(l.Log, "there is a folder of manifests now")
	}
	return found, false, err
}

// waitForWriter leaves a file alone that is open for writing: its last good objects stay in
// force. It returns how soon the next scan is due, since no event says that the file is closed.
func (l *fileLoop) waitForWriter(path string, now time.Time) time.Duration {
	since, known := l.writing[path]
	if !known {
		l.writing[path], since = now, now
	}
	open := now.Sub(since)
	if open >= writerTimeout {
		l.ingestFile(path, nil, errWriting)
	}
	return min(max(recheckInterval, open/4), maxWriterInterval)
}

// checkMount fails for an empty folder that used to be a mount point and is none now:
// most likely it is just not mounted.
func (l *fileLoop) checkMount(found listing) error {
	if l.mounted && !found.mounted && len(found.files) == 0 {
		return fmt.Errorf("%s used to be a mount point, and is an empty folder now: mount it, or put a manifest there", l.Path)
	}
	return nil
}

// keepWatch makes sure that the folder that was listed is the one being watched.
// It returns true if the watch is new.
func (l *fileLoop) keepWatch(found listing) bool {
	if l.watched == found.id && l.watch.Watches(found.dir) {
		return false
	}
	l.watched = folderID{}
	if err := l.watch.Watch(found.dir); err != nil {
		l.watchFault.begin(l.Log, "changes to manifests will be seen late", err)
		return false
	}
	l.watchFault.end(l.Log, "changes to manifests are seen at once again")
	l.watched = found.id
	return true
}

// ingestFile updates the state of a manifest by its content, or by the error of reading it.
func (l *fileLoop) ingestFile(path string, data []byte, err error) {
	known := l.files[path]
	if known == nil {
		known = &file{}
		l.files[path] = known
	}
	if err != nil {
		refused := l.in.refuseAll(path, err.Error(), known.accepted)
		l.dirty = l.dirty || !slices.Equal(refused, known.refused)
		known.read, known.refused = false, refused
		return
	}
	sum := sha256.Sum256(data)
	again := l.unlinked[path]
	delete(l.unlinked, path)
	if known.read && known.sum == sum {
		if again {
			l.rewritten[path], l.dirty = true, true
		}
		return
	}
	known.read, known.sum = true, sum
	known.accepted, known.refused = l.in.ingest(path, data, known.accepted)
	l.dirty = true
}

// forget drops files that were missing for recheckInterval: many editors replace a file by
// removing it first. It returns true if some are missing for less than that.
func (l *fileLoop) forget(there map[string]bool, now time.Time) bool {
	maps.DeleteFunc(l.writing, func(path string, _ time.Time) bool { return !there[path] })
	for path := range l.files {
		since, away := l.missing[path]
		switch {
		case there[path]:
			delete(l.missing, path)
		case !away:
			l.missing[path] = now
		case now.Sub(since) >= recheckInterval:
			delete(l.files, path)
			delete(l.missing, path)
			delete(l.unlinked, path)
			l.dirty = true
		}
	}
	return len(l.missing) > 0
}

// report writes the accepted objects to the state file, and then sends a snapshot. Pods of rewritten files are missing in
// a snapshot before it, and so are ended and started anew. It returns false if the context ended first.
func (l *fileLoop) report(ctx context.Context) bool {
	m := memory{mounted: l.mounted, accepted: map[string][]acceptedObject{}}
	for path, f := range l.files {
		if len(f.accepted) > 0 {
			m.accepted[path] = f.accepted
		}
	}
	err := l.store.save(m)
	if err != nil {
		l.storeFault.begin(l.Log, "the last good pods are not remembered over a restart", err)
	} else {
		l.storeFault.end(l.Log, "the last good pods are remembered again")
	}
	l.dirty = err != nil // to be tried again after the next scan
	s, objects := l.snapshot(pod.Set)
	if len(l.rewritten) > 0 {
		without := s
		without.Pods = l.podsWithoutRewritten()
		clear(l.rewritten)
		if !l.send.send(ctx, without, objects) {
			return false
		}
	}
	return l.send.send(ctx, s, objects)
}

// snapshot returns the pods and refusals of the folder, and the other objects, sorted by file.
func (l *fileLoop) snapshot(op pod.Op) (pod.Snapshot, []runtime.Object) {
	c := l.in.collect(l.manifests())
	return pod.Snapshot{Source: pod.SourceFile, Op: op, Pods: c.pods, Refused: c.refused}, c.objects
}

// podsWithoutRewritten returns the pods of all files that were not rewritten.
func (l *fileLoop) podsWithoutRewritten() []*v1.Pod {
	others := slices.DeleteFunc(l.manifests(), func(m manifests) bool { return l.rewritten[m.origin] })
	return l.in.collect(others).pods
}

// manifests returns the manifests of the folder, sorted by file.
func (l *fileLoop) manifests() []manifests {
	var all []manifests
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		all = append(all, manifests{path, l.files[path].accepted, l.files[path].refused})
	}
	return all
}
