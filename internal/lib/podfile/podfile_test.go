package podfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// sparse makes a file of that size which takes no room on the disk.
func sparse(t testing.TB, path string, size int64) {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600), os.Truncate(path, size))
}

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestReadRefusesWhatIsNotARegularFile(t *testing.T) {
	// given a directory with one of each kind that a container can make
	base := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(base, "socket"))
	must(t, err)
	defer socket.Close()
	must(t,
		os.MkdirAll(filepath.Join(base, "dir"), 0o700),
		os.WriteFile(filepath.Join(base, "dir", "file"), []byte("hello"), 0o600),
		os.Symlink("dir/file", filepath.Join(base, "link")),
		os.Symlink("dir", filepath.Join(base, "linkdir")),
		os.Symlink("/dev/zero", filepath.Join(base, "zero")),
		syscall.Mkfifo(filepath.Join(base, "pipe"), 0o600),
	)
	cases := []struct {
		base, name string
		want       error
	}{
		{base, "pipe", ErrNotRegular}, // to open it would wait for ever
		{base, "socket", ErrNotRegular},
		{base, "dir", ErrNotRegular},
		{"/dev", "null", ErrNotRegular},
		{base, "link", unix.ELOOP},
		{base, "zero", unix.ELOOP},
		{base, "linkdir/file", unix.ELOOP},
		{base, "../" + filepath.Base(base) + "/dir/file", unix.EXDEV},
		{base, "/etc/hostname", unix.EXDEV},
		{base, "none", fs.ErrNotExist},
		{base, "dir/file/below", unix.ENOTDIR},
		{filepath.Join(base, "none"), "file", fs.ErrNotExist},
	}
	for _, c := range cases {
		if _, err := Read(c.base, c.name, 100); !errors.Is(err, c.want) {
			t.Errorf("%s in %s: got %v, want %v", c.name, c.base, err, c.want)
		}
		if _, err := Tail(c.base, c.name, 100); !errors.Is(err, c.want) {
			t.Errorf("the end of %s in %s: got %v, want %v", c.name, c.base, err, c.want)
		}
	}
	// then a regular file is read, also if the way to its base has a link
	for _, at := range []string{base, filepath.Join(base, "linkdir")} {
		name := "file"
		if at == base {
			name = "dir/file"
		}
		if text, err := Read(at, name, 5); string(text) != "hello" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	base := t.TempDir()
	sparse(t, filepath.Join(base, "sparse"), 1<<40)
	used := allocated(func() {
		if _, err := Read(base, "sparse", 4096); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "sparse") {
			t.Errorf("got %v", err)
		}
		if text, err := Tail(base, "sparse", 4096); len(text) != 4096 || err != nil {
			t.Errorf("got %d bytes, %v", len(text), err)
		}
	})
	if used > 64<<10 {
		t.Errorf("a file of 1 TiB cost %d bytes", used)
	}
}

func TestTailOfASmallFile(t *testing.T) {
	base := t.TempDir()
	must(t, os.WriteFile(filepath.Join(base, "file"), []byte("hello"), 0o600))
	for limit, want := range map[int64]string{3: "llo", 5: "hello", 100: "hello"} {
		if text, err := Tail(base, "file", limit); string(text) != want || err != nil {
			t.Errorf("the last %d bytes are %q, %v; want %q", limit, text, err, want)
		}
	}
}

// TestOpenBySteps holds the way of old kernels to what openat2 does.
func TestOpenBySteps(t *testing.T) {
	base := t.TempDir()
	must(t,
		os.MkdirAll(filepath.Join(base, "a", "b"), 0o700),
		os.WriteFile(filepath.Join(base, "a", "b", "file"), nil, 0o600),
		os.Symlink("a", filepath.Join(base, "link")),
		os.Symlink("file", filepath.Join(base, "a", "b", "last")),
	)
	dir, err := openBase(base)
	must(t, err)
	defer dir.Close()
	proc, err := openBase("/")
	must(t, err)
	defer proc.Close()
	for _, c := range []struct {
		dir   *os.File
		path  string
		flags int
	}{
		{dir, "a/b/file", unix.O_PATH},
		{dir, ".", unix.O_RDONLY | unix.O_DIRECTORY},
		{dir, "a/b", unix.O_RDONLY | unix.O_DIRECTORY},
		{dir, "a/b/file", unix.O_RDONLY | unix.O_DIRECTORY},
		{dir, "link/b/file", unix.O_PATH},
		{dir, "link", unix.O_RDONLY | unix.O_DIRECTORY},
		{dir, "a/b/last", unix.O_PATH},
		{dir, "a/b/last", unix.O_PATH | unix.O_NOFOLLOW},
		{dir, "a/none", unix.O_PATH},
		{dir, "../x", unix.O_PATH},
		{dir, "/etc", unix.O_PATH},
		{proc, "proc/self", unix.O_PATH}, // another mount
	} {
		want, wantErr := OpenIn(c.dir, c.path, c.flags, NoLinksNoMounts)
		got, gotErr := openBySteps(c.dir, c.path, c.flags, NoLinksNoMounts)
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s: got %v, want %v", c.path, gotErr, wantErr)
			continue
		}
		if wantErr != nil {
			var a, b unix.Errno
			if errors.As(wantErr, &a); !errors.As(gotErr, &b) || a != b {
				t.Errorf("%s: got %v, want %v", c.path, gotErr, wantErr)
			}
			continue
		}
		var a, b unix.Stat_t
		must(t, unix.Fstat(int(want.Fd()), &a), unix.Fstat(int(got.Fd()), &b))
		if a.Ino != b.Ino || want.Name() != got.Name() {
			t.Errorf("%s: got %s, want %s", c.path, got.Name(), want.Name())
		}
		must(t, want.Close(), got.Close())
	}
	if _, err := openBySteps(dir, "a", unix.O_PATH, Within); err == nil || !strings.Contains(err.Error(), "Linux 5.6") {
		t.Errorf("got %v", err)
	}
}
