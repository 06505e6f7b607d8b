package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeStore takes archives with a file that lists names, as archiveOf makes them.
type fakeStore struct {
	awayUntil time.Time
	reads     int
	images    map[string]bool
}

func (s *fakeStore) importArchive(_ context.Context, r io.Reader, prefix string, _ map[string]string) ([]string, error) {
	s.reads++
	if time.Now().Before(s.awayUntil) {
		return nil, status.Error(codes.Unavailable, "connection refused")
	}
	files := tar.NewReader(r)
	if _, err := files.Next(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(files)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.FieldsSeq(string(text)) {
		if strings.HasPrefix(name, ":") {
			name = prefix + name
		}
		s.images[name] = true
		names = append(names, name)
	}
	return names, nil
}

func (s *fakeStore) awaitImages(context.Context, []string) error { return nil }

func (s *fakeStore) present(_ context.Context, names []string) (bool, error) {
	return !slices.ContainsFunc(names, func(n string) bool { return !s.images[n] }), nil
}

// archiveOf is a tar archive of one file.
func archiveOf(t *testing.T, file, content string) string {
	t.Helper()
	var out strings.Builder
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o600, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// folder is a running importer with its fake store, its log and its callbacks.
type folder struct {
	t        *testing.T
	paths    paths
	store    *fakeStore
	notices  chan struct{}
	ready    chan struct{}
	imported [][]string
	log      *recorder
	stop     func()
}

// importing starts an importer within a synctest bubble.
func importing(t *testing.T, p paths, store *fakeStore) *folder {
	t.Helper()
	f := &folder{t: t, paths: p, store: store, notices: make(chan struct{}, 1), ready: make(chan struct{}), log: &recorder{}}
	log := slog.New(slog.NewTextHandler(f.log, nil))
	record := newState(t, log).File(p.imported, "which image archives were imported")
	i := newImporter(p, record, store, func(names []string) { f.imported = append(f.imported, names) }, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { i.run(ctx, f.notices, func() { close(f.ready) }); close(done) }()
	f.stop = func() { cancel(); <-done }
	return f
}

func importPaths(t *testing.T) paths {
	t.Helper()
	p := testPaths(t, mkShort(t))
	if err := os.MkdirAll(p.images, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// put writes a file that was changed at a given time, by the clock of the test. If its
// content begins with archive: it is one, of images with the names that follow.
func put(t *testing.T, p paths, name, content string, changed time.Time) {
	t.Helper()
	path := filepath.Join(p.images, name)
	if names, ok := strings.CutPrefix(content, "archive:"); ok {
		content = archiveOf(t, "names", names)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, changed, changed); err != nil {
		t.Fatal(err)
	}
}

func (f *folder) put(name, content string) {
	f.t.Helper()
	put(f.t, f.paths, name, content, time.Now())
	select {
	case f.notices <- struct{}{}:
	default:
	}
}

func (f *folder) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestArchivesAreImportedOnce(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		// given a complete archive among files of other kinds
		put(t, p, "hello.tar", "archive:localhost/hello:1 localhost/hello:2", time.Now().Add(-time.Hour))
		for _, other := range []string{"README", ".hidden.tar", ".tar", "hello.tar.part"} {
			put(t, p, other, "archive:localhost/no:1", time.Now().Add(-time.Hour))
		}
		f := importing(t, p, store)
		synctest.Wait()
		<-f.ready
		if len(f.imported) != 1 || !slices.Equal(f.imported[0], []string{"localhost/hello:1", "localhost/hello:2"}) {
			t.Errorf("imported %v", f.imported)
		}
		f.pass(time.Hour) // audits find nothing new
		f.stop()

		// when the importer starts again, then the archive is not read again
		g := importing(t, p, store)
		<-g.ready
		g.stop()
		if store.reads != 1 || len(g.imported) != 0 {
			t.Errorf("read %d times, imported %v", store.reads, g.imported)
		}

		// unless one of its images is gone
		delete(store.images, "localhost/hello:2")
		h := importing(t, p, store)
		<-h.ready
		h.stop()
		if store.reads != 2 || len(h.imported) != 1 {
			t.Errorf("read %d times, imported %v", store.reads, h.imported)
		}

		// when it is removed, then its images are no longer on record, which would keep them
		if record, err := readRecord(p.imported); err != nil || len(record) != 1 {
			t.Errorf("on record: %v, %v", record, err)
		}
		if err := os.Remove(filepath.Join(p.images, "hello.tar")); err != nil {
			t.Fatal(err)
		}
		i := importing(t, p, store)
		<-i.ready
		i.stop()
		if record, err := readRecord(p.imported); err != nil || len(record) != 0 {
			t.Errorf("on record: %v, %v", record, err)
		}
	})
}

func TestArchiveThatIsBeingWrittenIsLeftAlone(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		f := importing(t, p, store)
		<-f.ready
		// given a slow writer
		for n := range 20 {
			f.put("big.tar", strings.Repeat("x", n))
			f.pass(settleTime / 2)
		}
		if store.reads != 0 {
			t.Fatalf("read %d times while it was being written", store.reads)
		}
		// when it is done, then the file is read soon
		f.put("big.tar", "archive:localhost/big:1")
		f.pass(2 * settleTime)
		if store.reads != 1 || len(f.imported) != 1 {
			t.Errorf("read %d times, imported %v", store.reads, f.imported)
		}
		f.stop()
	})
}

func TestArchiveOfTheStartIsWaitedFor(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		put(t, p, "new.tar", "archive:localhost/new:1", time.Now())
		f := importing(t, p, store)
		<-f.ready
		if len(f.imported) != 1 {
			t.Errorf("ready with imports %v", f.imported)
		}
		f.stop()
	})
}

func TestArchiveFromTheFutureIsImported(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		put(t, p, "new.tar", "archive:localhost/new:1", time.Now().Add(24*time.Hour))
		f := importing(t, p, store)
		f.pass(2 * settleTime)
		if len(f.imported) != 1 {
			t.Errorf("imports %v", f.imported)
		}
		f.stop()
	})
}

func TestBrokenArchiveIsNotTriedInALoop(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		f := importing(t, p, store)
		<-f.ready
		f.put("bad.tar", archiveOf(t, "names", "localhost/good:1")[:520])
		f.put("unnamed.tar", "archive:")
		f.pass(time.Hour)
		if store.reads != 1 || strings.Count(f.log.String(), "not imported") != 2 || !strings.Contains(f.log.String(), "has a name") {
			t.Fatalf("read %d times; log: %s", store.reads, f.log)
		}
		// when the file changes, then it is tried again
		f.put("bad.tar", "archive:localhost/good:1")
		f.pass(2 * settleTime)
		if len(f.imported) != 1 || strings.Count(f.log.String(), "not imported") != 2 {
			t.Errorf("imported %v; log: %s", f.imported, f.log)
		}
		f.stop()
	})
}

func TestRuntimeThatIsAwayDoesNotMakeAnArchiveBroken(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		store.awayUntil = time.Now().Add(10 * time.Second)
		f := importing(t, p, store)
		f.put("hello.tar", "archive:localhost/hello:1")
		f.pass(10*time.Second + 2*retryInterval)
		if len(f.imported) != 1 || strings.Contains(f.log.String(), "not imported") {
			t.Errorf("imported %v; log: %s", f.imported, f.log)
		}
		f.stop()
	})
}

func TestTagAloneGetsTheNameOfTheFile(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		put(t, p, "My App.tar.gz", "archive::1", time.Now().Add(-time.Hour))
		f := importing(t, p, store)
		<-f.ready
		if len(f.imported) != 1 || !slices.Equal(f.imported[0], []string{"localhost/my-app:1"}) {
			t.Errorf("imported %v", f.imported)
		}
		f.stop()
	})
}

func TestBrokenRecordIsNoObstacle(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	for _, content := range []string{"{", "null", "[]", ""} {
		if err := os.WriteFile(p.imported, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			put(t, p, "hello.tar", "archive:localhost/hello:1", time.Now().Add(-time.Hour))
			f := importing(t, p, store)
			<-f.ready
			f.stop()
			if len(f.imported) != 1 {
				t.Errorf("with record %q: imported %v", content, f.imported)
			}
		})
	}
}

func TestFolderThatIsGoneIsSaidOnce(t *testing.T) {
	p, store := importPaths(t), &fakeStore{images: map[string]bool{}}
	if err := os.Remove(p.images); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := importing(t, p, store)
		f.pass(time.Hour)
		if n := strings.Count(f.log.String(), "can not be read"); n != 1 {
			t.Errorf("said %d times", n)
		}
		f.stop()
	})
}
