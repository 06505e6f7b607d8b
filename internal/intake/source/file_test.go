package source

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"berth/internal/lib/pod"
)

// fakeWatch is a watcher whose events are the test's.
type fakeWatch struct {
	events chan fsnotify.Event
	errs   chan error
	fail   error

	mu   sync.Mutex
	hang <-chan struct{} // Watch returns when it is closed; nil: at once
	dirs []string
}

func newFakeWatch() *fakeWatch {
	return &fakeWatch{events: make(chan fsnotify.Event), errs: make(chan error)}
}

func (w *fakeWatch) Events() <-chan fsnotify.Event { return w.events }

func (w *fakeWatch) Errors() <-chan error { return w.errs }

func (w *fakeWatch) Watches(string) bool { return len(w.watched()) > 0 }

func (w *fakeWatch) Watch(dir string) error {
	if w.fail != nil {
		return w.fail
	}
	w.mu.Lock()
	hang := w.hang
	w.mu.Unlock()
	if hang != nil {
		<-hang
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs = append(w.dirs, dir)
	return nil
}

// hangFromNow has Watch wait for an answer. Nothing is watched any more.
func (w *fakeWatch) hangFromNow(answer <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hang, w.dirs = answer, nil
}

// watched lists the folders of all calls to Watch.
func (w *fakeWatch) watched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dirs)
}

// logText is a log that can be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// rig is a File on a folder of its own, in fake time.
type rig struct {
	t             *testing.T
	dir           string
	state         string
	watch         *fakeWatch
	log           *logText
	absentIsEmpty bool
}

func newRig(t *testing.T) *rig {
	base := t.TempDir()
	r := &rig{t: t, dir: filepath.Join(base, "manifests"), state: filepath.Join(base, "state.json"), watch: newFakeWatch(), log: &logText{}}
	must(t, os.Mkdir(r.dir, 0o700))
	return r
}

func (r *rig) file(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) start() (<-chan pod.Snapshot, func()) { return r.startAt(r.dir) }

func (r *rig) startAt(path string) (<-chan pod.Snapshot, func()) {
	r.t.Helper()
	f, err := NewFile(FileConfig{Path: path, Node: "N", Interval: 20 * time.Second, State: r.state, AbsentIsEmpty: r.absentIsEmpty, Log: slog.New(slog.NewTextHandler(r.log, nil))})
	must(r.t, err)
	return start(func(ctx context.Context, out chan<- pod.Snapshot) { f.run(ctx, out, r.watch) })
}

// event sends the source an event of a file.
func (r *rig) event(name string) {
	r.watch.events <- fsnotify.Event{Name: r.file(name), Op: fsnotify.Write}
}

func (r *rig) logged(text string) int { return r.log.count(text) }

// inBubble runs a scenario in fake time.
func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t)) })
}

func TestAFolderIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("b.yml"), web("b", "1"))
		write(t, r.file("a.yaml"), web("a", "1")+"---\n"+web("a2", "1"))
		write(t, r.file("c.json"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"localhost/1"}]}}`)
		for _, name := range []string{".d.yaml", "e.yaml~", "f.yaml.bak", "#g.yaml#", ".#h.yaml", "i.txt", "j.yaml.orig", "k.yaml.rpmsave", ".l.yaml.swp", "#m.yaml"} {
			write(t, r.file(name), web("not", "1"))
		}
		must(t, os.Mkdir(r.file("sub.yaml"), 0o700))
		write(t, filepath.Join(r.file("sub.yaml"), "n.yaml"), web("not", "1"))
		must(t, os.Symlink(r.file("sub.yaml"), r.file("link.yaml")))
		// The way in which Kubernetes writes a folder of files.
		must(t, os.Mkdir(r.file("..1"), 0o700))
		write(t, filepath.Join(r.file("..1"), "z.yaml"), web("z", "1"))
		must(t, os.Symlink("..1", r.file("..data")))
		must(t, os.Symlink("..data/z.yaml", r.file("z.yaml")))

		out, stop := r.start()
		defer stop()
		s := wantNext(t, out, "SET a-n=1 a2-n=1 b-n=1 c-n=1 z-n=1")
		if s.Source != pod.SourceFile || pod.Source(s.Pods[0]) != pod.SourceFile {
			t.Errorf("the source is %s, %s", s.Source, pod.Source(s.Pods[0]))
		}

		// The link is swapped as a whole.
		must(t, os.Mkdir(r.file("..2"), 0o700))
		write(t, filepath.Join(r.file("..2"), "z.yaml"), web("z", "2"))
		must(t, os.Symlink("..2", r.file("..tmp")))
		must(t, os.Rename(r.file("..tmp"), r.file("..data")))
		r.event("..data")
		wantNext(t, out, "SET a-n=1 a2-n=1 b-n=1 c-n=1 z-n=2")
	})
}

func TestAnEmptyFolderIsASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET ")
		// Looking again finds nothing new, and says nothing.
		wantNone(t, out, 5*time.Minute)
	})
}

func TestABurstIsOneSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET ")
		began := time.Now()
		for _, name := range []string{"a", "b", "c"} {
			write(t, r.file(name+".yaml"), web(name, "1"))
			r.event(name + ".yaml")
			time.Sleep(quietInterval / 2)
		}
		wantNext(t, out, "SET a-n=1 b-n=1 c-n=1")
		if took := time.Since(began); took > 3*quietInterval {
			t.Errorf("it took %s", took)
		}
		// Other files are ignored.
		write(t, r.file("d.yaml"), web("d", "1"))
		r.event("d.yaml.swp")
		wantNone(t, out, 10*time.Second)
		wantNext(t, out, "SET a-n=1 b-n=1 c-n=1 d-n=1") // the slow look finds it
	})
}

func TestLostEventsAreALook(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET ")
		write(t, r.file("a.yaml"), web("a", "1"))
		r.watch.errs <- fsnotify.ErrEventOverflow
		began := time.Now()
		wantNext(t, out, "SET a-n=1")
		if took := time.Since(began); took > quietInterval {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAReplacedFileIsNoRemoval(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		defer stop()
		first := wantNext(t, out, "SET a-n=1")

		// The file is away for a moment, and comes back.
		must(t, os.Remove(r.file("a.yaml")))
		r.event("a.yaml")
		time.Sleep(quietInterval + recheckInterval/2)
		write(t, r.file("a.yaml"), web("a", "2"))
		r.event("a.yaml")
		second := wantNext(t, out, "SET a-n=2")
		if first.Pods[0].UID == second.Pods[0].UID {
			t.Error("another content has the same UID")
		}

		// Now it stays away.
		must(t, os.Remove(r.file("a.yaml")))
		r.event("a.yaml")
		began := time.Now()
		wantNext(t, out, "SET ")
		if took := time.Since(began); took < recheckInterval || took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// removeEvent sends the source an event of a file that was removed, and one of a file that was created, if it was.
func (r *rig) removeEvent(name string, created bool) {
	r.watch.events <- fsnotify.Event{Name: r.file(name), Op: fsnotify.Remove}
	if created {
		r.watch.events <- fsnotify.Event{Name: r.file(name), Op: fsnotify.Create}
	}
}

func TestAFileThatIsRemovedAndWrittenAgainRestartsItsPods(t *testing.T) {
	const betweenScans = 61 * time.Second // no scan is due at its end
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		write(t, r.file("b.yaml"), web("b", "1"))
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET a-n=1 b-n=1")

		// when a file is removed and written again, at once or before it counts as gone
		for _, pause := range []time.Duration{0, quietInterval + recheckInterval/2} {
			must(t, os.Remove(r.file("a.yaml")))
			if pause > 0 {
				r.removeEvent("a.yaml", false)
				time.Sleep(pause)
			}
			write(t, r.file("a.yaml"), web("a", "1"))
			if pause > 0 {
				r.event("a.yaml")
			} else {
				r.removeEvent("a.yaml", true)
			}
			// then its pods are gone for one snapshot
			wantNext(t, out, "SET b-n=1")
			wantNext(t, out, "SET a-n=1 b-n=1")
			wantNone(t, out, betweenScans)
		}

		// when the content is another one, then nothing but that counts
		must(t, os.Remove(r.file("a.yaml")))
		write(t, r.file("a.yaml"), web("a", "2"))
		r.removeEvent("a.yaml", true)
		wantNext(t, out, "SET a-n=2 b-n=1")
		wantNone(t, out, betweenScans)

		// when a file is replaced or touched without being removed, then nothing happens: editors and tools do that
		r.watch.events <- fsnotify.Event{Name: r.file("a.yaml"), Op: fsnotify.Rename}
		r.watch.events <- fsnotify.Event{Name: r.file("a.yaml"), Op: fsnotify.Create}
		r.event("b.yaml")
		wantNone(t, out, betweenScans)
	})
}

func TestABrokenFileKeepsItsPod(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		write(t, r.file("b.yaml"), web("b", "1"))
		out, stop := r.start()
		first := wantNext(t, out, "SET a-n=1 b-n=1")

		write(t, r.file("a.yaml"), broken("a"))
		write(t, r.file("b.yaml"), web("b", "2"))
		r.event("a.yaml")
		wantNext(t, out, "SET a-n=1 b-n=2 !a.yaml:7 default/a-n kept=true")
		wantNone(t, out, 49*time.Second)

		// Not even a restart of the agent takes it down.
		stop()
		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1 b-n=2")
		wantNext(t, out, "SET a-n=1 b-n=2 !a.yaml:7 default/a-n kept=true")

		write(t, r.file("a.yaml"), web("a", "1"))
		r.event("a.yaml")
		last := wantNext(t, out, "SET a-n=1 b-n=2")
		if last.Pods[0].UID != first.Pods[0].UID {
			t.Error("the same content has another UID")
		}
	})
}

func TestWhatCanNotBeReadIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		must(t, os.Symlink("nowhere", r.file("a.yaml")))
		must(t, syscall.Mkfifo(r.file("b.yaml"), 0o600))
		write(t, r.file("c.yaml"), web("c", "1"))
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET c-n=1 !a.yaml:0  kept=false !b.yaml:0  kept=false")

		must(t, os.Truncate(r.file("c.yaml"), MaxManifest+1))
		r.event("c.yaml")
		s := wantNext(t, out, "SET c-n=1 !a.yaml:0  kept=false !b.yaml:0  kept=false !c.yaml:0  kept=true")
		if !strings.Contains(s.Refused[2].Message, "more than 10 MB") {
			t.Errorf("have %q", s.Refused[2].Message)
		}
		wantNone(t, out, 49*time.Second)
		must(t, os.Remove(r.file("a.yaml")))
		must(t, os.Remove(r.file("b.yaml")))
		write(t, r.file("c.yaml"), web("c", "2"))
		r.event("c.yaml")
		wantNext(t, out, "SET c-n=2 !a.yaml:0  kept=false !b.yaml:0  kept=false")
		wantNext(t, out, "SET c-n=2")
	})
}

// Every prefix that ends at a line is a pod: the first of them one that runs as root.
func TestAFileThatIsBeingWrittenIsNotActedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET ")

		file, err := os.Create(r.file("a.yaml"))
		must(t, err)
		defer file.Close()
		for line := range strings.Lines(web("a", "1") + "    securityContext: {runAsUser: 1000}\n") {
			_, err := file.WriteString(line)
			must(t, err)
			r.event("a.yaml")
			wantNone(t, out, writerTimeout/10)
		}
		must(t, file.Close())
		began := time.Now()
		s := wantNext(t, out, "SET a-n=1")
		if took := time.Since(began); took > maxWriterInterval {
			t.Errorf("it took %s after the file was closed", took)
		}
		if c := s.Pods[0].Spec.Containers[0].SecurityContext; c == nil || *c.RunAsUser != 1000 {
			t.Errorf("have %+v", c)
		}
	})
}

func TestAFileThatStaysOpenIsRefusedAndKeepsItsPod(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1")

		// when a program begins to write a file, and does not finish
		file, err := os.Create(r.file("a.yaml"))
		must(t, err)
		defer file.Close()
		_, err = file.WriteString(web("a", "2"))
		must(t, err)
		r.event("a.yaml")
		began := time.Now()
		s := wantNext(t, out, "SET a-n=1 !a.yaml:0  kept=true")
		if took := time.Since(began); took < writerTimeout || !strings.Contains(s.Refused[0].Message, "open for writing") {
			t.Errorf("after %s: %q", took, s.Refused[0].Message)
		}
		wantNone(t, out, time.Hour)

		// then the next agent does not act on it either
		stop()
		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1")
		wantNext(t, out, "SET a-n=1")
		wantNext(t, out, "SET a-n=1 !a.yaml:0  kept=true")
		must(t, file.Close())
		wantNext(t, out, "SET a-n=2")
	})
}

// Else no manifest would ever be read on a server that delegates nothing.
func TestALeaseThatAServerRefusesMeansNoWriter(t *testing.T) {
	for filesystem, want := range map[uint32]openState{
		unix.NFS_SUPER_MAGIC: notKnown, unix.CIFS_SUPER_MAGIC: notKnown, unix.SMB2_SUPER_MAGIC: notKnown,
		unix.EXT4_SUPER_MAGIC: written, unix.TMPFS_MAGIC: written, unix.OVERLAYFS_SUPER_MAGIC: written,
	} {
		if have := refusedLease(filesystem); have != want {
			t.Errorf("%#x: have %v, want %v", filesystem, have, want)
		}
	}
}

func TestAFileRestsWhereTheKernelKnowsNoWriters(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		open openState
		age  time.Duration
		want error
	}{
		{closed, 0, nil},
		{written, time.Hour, errWriting},
		{notKnown, settleTime - 1, errUnsettled},
		{notKnown, settleTime, nil},
		{notKnown, 1 - settleTime, errUnsettled},
		{notKnown, -time.Hour, nil}, // by the clock of another machine
	} {
		if have := c.open.check(now.Add(-c.age), now); !errors.Is(have, c.want) {
			t.Errorf("%+v: %v", c, have)
		}
	}
}

// rewrite changes the state file, as another version of berth would have written it.
func (r *rig) rewrite(old, text string) {
	r.t.Helper()
	raw, err := os.ReadFile(r.state)
	must(r.t, err)
	if !strings.Contains(string(raw), old) {
		r.t.Fatalf("there is no %s in %s", old, raw)
	}
	write(r.t, r.state, strings.ReplaceAll(string(raw), old, text))
}

func TestAnUpgradeThatRefusesAPodKeepsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		// given a folder of which an earlier berth took in more than this one does
		write(t, r.file("a.yaml"), web("a", "1"))
		write(t, r.file("b.yaml"), web("b", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1 b-n=1")
		stop()
		r.rewrite(`"restartPolicy":"Always"`, `"restartPolicy":"Sometimes"`)
		write(t, r.file("a.yaml"), web("a", "1")+"  restartPolicy: Sometimes\n")

		// then it stays in force, also after its file was read
		out, stop = r.start()
		wantNext(t, out, "RESTORE a-n=1 b-n=1 !a.yaml:0 default/a-n kept=true !b.yaml:0 default/b-n kept=true")
		s := wantNext(t, out, "SET a-n=1 b-n=1 !a.yaml:8 default/a-n kept=true")
		if s.Refused[0].UID != "" || s.Pods[0].Spec.RestartPolicy != "Sometimes" {
			t.Errorf("have %+v", s)
		}
		stop()

		// and over the next restart
		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1 b-n=1 !a.yaml:0 default/a-n kept=true !b.yaml:0 default/b-n kept=true")
		wantNext(t, out, "SET a-n=1 b-n=1 !a.yaml:8 default/a-n kept=true")
	})
}

func TestAnUpgradeThatCanNotReadAPodNamesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		write(t, r.file("b.yaml"), web("b", "1"))
		out, stop := r.start()
		uid := wantNext(t, out, "SET a-n=1 b-n=1").Pods[0].UID
		stop()
		r.rewrite(`localhost/1","resources"`, `localhost/1","engine":8,"resources"`)
		write(t, r.file("a.yaml"), web("a", "1")+"    engine: 8\n")

		out, stop = r.start()
		defer stop()
		s := wantNext(t, out, "RESTORE !a.yaml:0 default/a-n kept=true !b.yaml:0 default/b-n kept=true")
		if s.Refused[0].UID != uid {
			t.Errorf("have %+v, want %s", s.Refused[0], uid)
		}
		// The file of b is one that this version can read: it is the same pod.
		s = wantNext(t, out, "SET b-n=1 !a.yaml:8 default/a-n kept=true !a.yaml:0 default/a-n kept=true")
		if s.Refused[1].UID != uid {
			t.Errorf("have %+v, want %s", s.Refused[1], uid)
		}

		// Its file is what it lives by.
		must(t, os.Remove(r.file("a.yaml")))
		r.event("a.yaml")
		wantNext(t, out, "SET b-n=1")
	})
}

func TestOtherDefaultsMakeNoOtherPod(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		// given a pod that was taken in by a version with another default
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1")
		stop()
		raw, err := os.ReadFile(r.state)
		must(t, err)
		content := strings.Replace(string(raw), `"terminationGracePeriodSeconds":30`, `"terminationGracePeriodSeconds":31`, 1)
		if content == string(raw) {
			t.Fatalf("nothing to change in %s", raw)
		}
		uid := regexp.MustCompile(`"uid":"([^"]*)"`).FindStringSubmatch(content)[1]
		content = strings.ReplaceAll(content, uid, "as-it-was")
		write(t, r.state, content)

		// when this version reads the same manifest, in another layout, then the pod is as it was
		write(t, r.file("a.yaml"), "# hello\n"+web("a", "1"))
		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1")
		s := wantNext(t, out, "SET a-n=1")
		if p := s.Pods[0]; p.UID != "as-it-was" || *p.Spec.TerminationGracePeriodSeconds != 31 {
			t.Errorf("have %s with %d", p.UID, *p.Spec.TerminationGracePeriodSeconds)
		}

		// and an edited one is new
		write(t, r.file("a.yaml"), web("a", "1")+"  restartPolicy: Never\n")
		r.event("a.yaml")
		s = wantNext(t, out, "SET a-n=1")
		if p := s.Pods[0]; p.UID == "as-it-was" || *p.Spec.TerminationGracePeriodSeconds != 30 {
			t.Errorf("have %s with %d", p.UID, *p.Spec.TerminationGracePeriodSeconds)
		}
	})
}

func TestAVanishedFolderRemovesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET a-n=1")

		must(t, os.Rename(r.dir, r.dir+".away"))
		r.event("")
		wantNone(t, out, 49*time.Second)
		if n := r.logged("manifests can't be read"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}

		must(t, os.Rename(r.dir+".away", r.dir))
		write(t, r.file("b.yaml"), web("b", "1"))
		wantNext(t, out, "SET a-n=1 b-n=1")
		if n := r.logged("manifests can be read again"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}

		// Another folder takes its place: it is watched, and what it holds counts.
		watches := len(r.watch.watched())
		must(t, os.Rename(r.dir, r.dir+".away"))
		must(t, os.Mkdir(r.dir, 0o700))
		r.event("a.yaml")
		wantNext(t, out, "SET ")
		if len(r.watch.watched()) != watches+1 {
			t.Errorf("watched %q", r.watch.watched())
		}
	})
}

func TestAFolderThatIsNotThereAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1")
		stop()
		must(t, os.Rename(r.dir, r.dir+".away"))

		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1")
		wantNext(t, out, "RESTORE a-n=1 (unreadable)")
		wantNone(t, out, 49*time.Second)
		must(t, os.Rename(r.dir+".away", r.dir))
		wantNext(t, out, "SET a-n=1")
	})
}

// A node of kubeadm that runs no control plane may have no such folder: its sources have to become ready all the same.
func TestAFolderThatIsNotThereIsEmptyForAKubelet(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.absentIsEmpty = true
		must(t, os.Remove(r.dir))
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET ")
		wantNone(t, out, 5*time.Minute)
		if n := r.logged("there is no folder of manifests"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}

		must(t, os.Mkdir(r.dir, 0o700))
		write(t, r.file("a.yaml"), web("a", "1"))
		wantNext(t, out, "SET a-n=1")
		if n := r.logged("there is a folder of manifests now"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}

		must(t, os.Rename(r.dir, r.dir+".away"))
		r.event("")
		wantNext(t, out, "SET ")
	})
}

func TestRemovedWhileAwayIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1")
		stop()
		must(t, os.Remove(r.file("a.yaml")))

		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1")
		// The first snapshot of the folder is not that of a file that is gone: its
		// pod would be started once more.
		wantNext(t, out, "SET ")
	})
}

func TestEditedWhileAwayIsNotSentInItsOldVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		write(t, r.file("b.yaml"), web("b", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1 b-n=1")
		stop()
		must(t, os.Remove(r.file("a.yaml")))
		write(t, r.file("b.yaml"), web("b", "2"))

		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1 b-n=1")
		wantNext(t, out, "SET b-n=2")
	})
}

// A folder on a server that does not answer can't be distinguished from a slow one.
func TestAFolderThatDoesNotAnswerIsUnreadable(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		wantNext(t, out, "SET a-n=1")
		stop()

		answer := make(chan struct{})
		r.watch.hangFromNow(answer)
		out, stop = r.start()
		defer stop()
		wantNext(t, out, "RESTORE a-n=1")
		wantNone(t, out, firstScanTimeout-time.Second)
		wantNext(t, out, "RESTORE a-n=1 (unreadable)")
		close(answer)
		wantNext(t, out, "SET a-n=1")
	})
}

func TestAFolderThatDoesNotAnswerDoesNotHoldUpTheEnd(t *testing.T) {
	for name, first := range map[string]bool{"at the first look": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				answer := make(chan struct{})
				defer close(answer)
				if first {
					r.watch.hangFromNow(answer)
				}
				out, stop := r.start()
				if !first {
					wantNext(t, out, "SET ")
					r.watch.hangFromNow(answer)
				}
				time.Sleep(time.Minute) // it looks, and waits
				stop()
			})
		})
	}
}

func TestAnUnmountedFolderIsNotEmpty(t *testing.T) {
	l := &fileLoop{File: &File{}, mounted: true}
	for _, c := range []struct {
		found  listing
		doubts bool
	}{
		{listing{mounted: true}, false},
		{listing{mounted: false}, true},
		{listing{mounted: false, files: []string{"/m/a.yaml"}}, false},
	} {
		if err := l.checkMount(c.found); (err != nil) != c.doubts {
			t.Errorf("%+v: %v", c.found, err)
		}
	}
	if !isMounted("/proc") || isMounted(t.TempDir()) {
		t.Error("mount points are not recognised")
	}
}

func TestASingleFile(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		write(t, r.file("b.yaml"), web("b", "1"))
		out, stop := r.startAt(r.file("a.yaml"))
		defer stop()
		wantNext(t, out, "SET a-n=1")
		if r.watch.watched()[0] != r.dir {
			t.Errorf("watched %q", r.watch.watched())
		}
		must(t, os.Remove(r.file("a.yaml")))
		r.event("a.yaml")
		wantNext(t, out, "SET ")
		must(t, os.RemoveAll(r.dir))
		wantNone(t, out, 49*time.Second)
	})
}

func TestAFolderThatCanNotBeWatchedIsStillRead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.watch.fail = errors.New("no watches left")
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET ")
		write(t, r.file("a.yaml"), web("a", "1"))
		wantNext(t, out, "SET a-n=1")
		wantNone(t, out, 49*time.Second)
		if n := r.logged("will be seen late"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
	})
}

func TestAFullDiskIsLoggedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		must(t, os.Mkdir(r.state+".new", 0o700)) // in the way
		write(t, r.file("a.yaml"), web("a", "1"))
		out, stop := r.start()
		defer stop()
		wantNext(t, out, "SET a-n=1")
		wantNone(t, out, 49*time.Second)
		must(t, os.Remove(r.state+".new"))
		wantNone(t, out, 49*time.Second)
		if _, err := os.Stat(r.state); err != nil {
			t.Error(err)
		}
		if begun, ended := r.logged("are not remembered"), r.logged("are remembered again"); begun != 1 || ended != 1 {
			t.Errorf("logged %d and %d times", begun, ended)
		}
	})
}

func TestStoppingWithoutAReader(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		write(t, r.file("a.yaml"), web("a", "1"))
		_, stop := r.start()
		synctest.Wait() // it is about to send
		stop()
	})
}

func TestPace(t *testing.T) {
	start := time.Unix(1000, 0)
	p := schedule{interval: time.Minute}
	p.scanned(start, 0)
	if p.next != start.Add(time.Minute) {
		t.Errorf("without an event: %v", p.next.Sub(start))
	}
	p.scanned(start, recheckInterval)
	if p.next != start.Add(recheckInterval) {
		t.Errorf("in doubt: %v", p.next.Sub(start))
	}
	// Events that do not end are not waited for any longer than that.
	for i := range 100 {
		p.event(start.Add(time.Duration(i) * quietInterval / 2))
	}
	if p.next != start.Add(burstTimeout) {
		t.Errorf("in a long burst: %v", p.next.Sub(start))
	}
	p = schedule{interval: time.Millisecond}
	p.scanned(start, recheckInterval)
	if p.next != start.Add(time.Millisecond) {
		t.Errorf("doubt put off a look: %v", p.next.Sub(start))
	}
}
