package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"berth/internal/lib/podfile"
)

func files(pairs ...string) payload {
	p := payload{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = file{data: []byte(pairs[i+1]), mode: 0o644, uid: -1}
	}
	return p
}

func TestReadersNeverSeeAMix(t *testing.T) {
	c := atomicWriter{dir: t.TempDir(), group: -1}
	version := func(n int) payload {
		text := strconv.Itoa(n)
		return files("a", text, "sub/b", text, "only-"+strconv.Itoa(n%2), text)
	}
	if _, err := c.write(version(0)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	seen := make([]int, 2)
	for i := range seen {
		readers.Go(func() {
			for ctx.Err() == nil {
				if read(t, c.dir) {
					seen[i]++
				}
			}
		})
	}
	for n := 1; n <= 100; n++ {
		if _, err := c.write(version(n)); err != nil {
			t.Error(err)
		}
	}
	stop()
	readers.Wait()
	if !read(t, c.dir) || seen[0]+seen[1] == 0 {
		t.Error("nobody has read anything", seen)
	}
}

// read reads as a careful program does: it resolves ..data once, and reads all files in that
// directory. It returns false if the directory was removed meanwhile.
func read(t *testing.T, dir string) bool {
	root, err := os.OpenRoot(filepath.Join(dir, "..data"))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Error(err)
		return false
	}
	defer func() { _ = root.Close() }()
	a, errA := root.ReadFile("a")
	b, errB := root.ReadFile("sub/b")
	if errA != nil || errB != nil {
		if !errors.Is(errors.Join(errA, errB), fs.ErrNotExist) {
			t.Error(errA, errB)
		}
		return false
	}
	if string(a) != string(b) || len(a) == 0 {
		t.Errorf("a mix: %q and %q", a, b)
	}
	return true
}

func TestWhatACrashLeftIsTidied(t *testing.T) {
	c := atomicWriter{dir: t.TempDir(), group: -1}
	if _, err := c.write(files("a", "1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"..2020_01_01_00_00_00.1", "kept-for-a-subpath"} {
		if err := os.Mkdir(filepath.Join(c.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{newDataLink, "stale"} {
		if err := os.Symlink("nowhere", filepath.Join(c.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(c.dir, "a")); err != nil {
		t.Fatal(err)
	}

	if _, err := c.write(files("a", "1")); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := c.current() + " ..data a kept-for-a-subpath"; strings.Join(names, " ") != want {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestContentThatIsNotAsItShouldBeIsWrittenAnew(t *testing.T) {
	for what, harm := range map[string]func(dir string) error{
		"cut off":   func(dir string) error { return os.Truncate(filepath.Join(dir, "a"), 0) },
		"changed":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o600) },
		"mode":      func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o600) },
		"removed":   func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"one more":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "z"), nil, 0o600) },
		"no data":   func(dir string) error { return os.Remove(filepath.Join(filepath.Dir(dir), dataLink)) },
		"all of it": os.RemoveAll,
	} {
		c := atomicWriter{dir: t.TempDir(), group: -1}
		if _, err := c.write(files("a", "1")); err != nil {
			t.Fatal(err)
		}
		before := c.current()
		if err := harm(filepath.Join(c.dir, before)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.write(files("a", "1")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(c.dir, "a")); string(got) != "1" || err != nil || c.current() == before {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestAFileCantBeAFolder(t *testing.T) {
	_, err := atomicWriter{dir: t.TempDir(), group: -1}.write(files("a", "1", "a/b/c", "2"))
	if err == nil || err.Error() != `"a" is to be a file, and with "a/b/c" a folder` {
		t.Error(err)
	}
}

func TestTheDeepestPathIsWrittenOnce(t *testing.T) {
	c := atomicWriter{dir: t.TempDir(), group: -1}
	p := payload{}
	if err := p.add(strings.Repeat("d/", podfile.MaxDepth-1)+"file", file{data: []byte("x"), mode: 0o644, uid: -1}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if changed, err := c.write(p); changed != want || err != nil {
			t.Errorf("changed: %v, %v; want %v", changed, err, want)
		}
	}
}

func TestWhatWasPutIntoAGivenVolumeGoes(t *testing.T) {
	c := atomicWriter{dir: t.TempDir(), group: -1}
	p := payload{"key": {data: []byte("x"), mode: 0o644, uid: -1}}
	if _, err := c.write(p); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(at string) error{
		"a sparse file": func(at string) error { return os.Truncate(at, 1<<40) },
		"a pipe":        func(at string) error { return errors.Join(os.Remove(at), syscall.Mkfifo(at, 0o644)) },
		"a link":        func(at string) error { return errors.Join(os.Remove(at), os.Symlink("/dev/zero", at)) },
		"more files":    func(at string) error { return os.WriteFile(at+"2", nil, 0o644) },
	} {
		if err := do(filepath.Join(c.dir, c.current(), "key")); err != nil {
			t.Fatal(err)
		}
		if changed, err := c.write(p); !changed || err != nil {
			t.Errorf("%s: changed: %v, %v", name, changed, err)
		}
		if text, err := os.ReadFile(filepath.Join(c.dir, "key")); string(text) != "x" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if files, err := os.ReadDir(filepath.Join(c.dir, c.current())); len(files) != 1 || err != nil {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
}
