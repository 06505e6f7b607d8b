package podfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nest makes levels of directories, as deep as a path may not be long.
func nest(t testing.TB, dir, name string, levels int) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	must(t, err)
	for range levels {
		must(t, at.Mkdir(name, 0o700))
		next, err := at.OpenRoot(name)
		_ = at.Close()
		must(t, err)
		at = next
	}
	_ = at.Close()
}

func openRoot(t testing.TB, dir string) *os.File {
	t.Helper()
	root, err := OpenDir(dir, ".")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	must(t,
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700),
		os.MkdirAll(filepath.Join(dir, "left", "out"), 0o700),
		os.WriteFile(filepath.Join(dir, "a", "b", "file"), nil, 0o600),
		os.Symlink("/", filepath.Join(dir, "a", "link")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	)
	var got []string
	err := Walk(t.Context(), openRoot(t, dir), 0, func(e Entry) error {
		at, err := filepath.Rel(dir, filepath.Join(e.Dir.Name(), e.Name))
		got = append(got, at)
		if e.Name == "left" {
			return fs.SkipDir
		}
		return err
	})
	slices.Sort(got)
	if want := []string{"a", "a/b", "a/b/file", "a/link", "left", "pipe"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestADirectoryThatVanishesWhileItIsWalked(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	must(t, os.Mkdir(gone, 0o700), os.WriteFile(filepath.Join(dir, "stays"), nil, 0o600))
	for i := range 2 * batch {
		must(t, os.WriteFile(filepath.Join(gone, fmt.Sprint(i)), nil, 0o600))
	}
	// when it is removed after a part of it was read
	var got []string
	err := Walk(t.Context(), openRoot(t, dir), 0, func(e Entry) error {
		if e.Dir.Name() == gone {
			return os.RemoveAll(gone)
		}
		got = append(got, e.Name)
		return nil
	})
	// then the walk goes on
	slices.Sort(got)
	if want := []string{"gone", "stays"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestWalkEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	visited := 0
	count := func(Entry) error { visited++; return nil }
	if err := Walk(t.Context(), openRoot(t, dir), 9, count); !errors.Is(err, ErrTooMany) || visited != 9 {
		t.Errorf("visited %d, %v", visited, err)
	}
	if err := Walk(t.Context(), openRoot(t, dir), 10, count); err != nil {
		t.Error(err)
	}
	failed := errors.New("failed")
	if err := Walk(t.Context(), openRoot(t, dir), 0, func(Entry) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	visited = 0
	err := Walk(ctx, openRoot(t, dir), 0, func(Entry) error { visited++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || visited != 1 {
		t.Errorf("visited %d, %v", visited, err)
	}
}

func TestWalkOfADeepTree(t *testing.T) {
	// given a tree that is deeper than a path can be long, with a file beside it
	dir := t.TempDir()
	nest(t, dir, strings.Repeat("deep", 10), MaxDepth+50)
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	t.Cleanup(func() { must(t, RemoveTree(openRoot(t, filepath.Dir(dir)), filepath.Base(dir))) })
	// then the walk visits what it may, and says that this is not all
	files, dirs := 0, 0
	err := Walk(t.Context(), openRoot(t, dir), 0, func(e Entry) error {
		if e.IsDir() {
			dirs++
		} else {
			files++
		}
		return nil
	})
	if !errors.Is(err, ErrTooDeep) || files != 1 || dirs != MaxDepth {
		t.Errorf("visited %d files and %d directories, %v", files, dirs, err)
	}
}

func TestAWideDirectoryCostsABatch(t *testing.T) {
	// given a directory of more names than fit into the memory that is allowed below
	dir := t.TempDir()
	const files = 20_000
	long := strings.Repeat("n", 240)
	for i := range files {
		f, err := syscall.Open(filepath.Join(dir, fmt.Sprint(long, i)), syscall.O_CREAT|syscall.O_WRONLY, 0o600)
		must(t, err)
		must(t, syscall.Close(f))
	}
	peak := func(walk func(visit func())) (visited int, grown uint64) {
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		walk(func() {
			if visited++; visited%(files/10) == 0 {
				runtime.GC() // what is left after it is held
				runtime.ReadMemStats(&now)
				grown = max(grown, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
			}
		})
		return visited, grown
	}
	for name, walk := range map[string]func(visit func()){
		"Walk": func(visit func()) {
			must(t, Walk(t.Context(), openRoot(t, dir), 0, func(Entry) error { visit(); return nil }))
		},
		"Each": func(visit func()) { must(t, Each(dir, ".", func(fs.DirEntry) error { visit(); return nil })) },
	} {
		if visited, grown := peak(walk); visited != files || grown > 1<<20 {
			t.Errorf("%s visited %d of %d files, and held %d bytes", name, visited, files, grown)
		}
	}
}

func TestEach(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(base, "dir", "a"), 0o700), os.Mkdir(filepath.Join(base, "dir", "b"), 0o700), os.Symlink("dir", filepath.Join(base, "link")))
	var got []string
	if err := Each(base, "dir", func(e fs.DirEntry) error { got = append(got, e.Name()); return nil }); err != nil {
		t.Error(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
	visited := 0
	if err := Each(base, "dir", func(fs.DirEntry) error { visited++; return fs.SkipAll }); err != nil || visited != 1 {
		t.Errorf("visited %d, %v", visited, err)
	}
	if err := Each(base, "link", func(fs.DirEntry) error { return nil }); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	if err := Each(base, "none", func(fs.DirEntry) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
