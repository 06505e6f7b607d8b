package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/lib/podfile"
)

func TestGiveToGroup(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(outside, nil, 0o600),
		os.MkdirAll(filepath.Join(dir, "a/b"), 0o700),
		os.WriteFile(filepath.Join(dir, "a/b/file"), nil, 0o400),
		os.WriteFile(filepath.Join(dir, "a/tool"), nil, 0o700),
		os.Symlink(outside, filepath.Join(dir, "a/link")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), // opening it would hang
	); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	gid := int(someGroup())

	give := func(lazy bool) {
		t.Helper()
		if refused, err := chgrpTree(t.Context(), root, gid, lazy); refused.files > 0 || err != nil {
			t.Fatal(refused, err)
		}
	}
	give(false)

	for name, want := range map[string]os.FileMode{
		"a": os.ModeDir | os.ModeSetgid | 0o770, "a/b": os.ModeDir | os.ModeSetgid | 0o770,
		"a/b/file": 0o660, "a/tool": 0o760, "pipe": os.ModeNamedPipe | 0o660,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, got := owner(info); info.Mode() != want || got != gid {
			t.Errorf("%s: %v, group %d; want %v, %d", name, info.Mode(), got, want, gid)
		}
	}
	if m := mode(t, outside); m != 0o600 {
		t.Error("a link was followed:", m)
	}

	// OnRootMismatch believes the root.
	file := filepath.Join(dir, "a/b/file")
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if give(true); mode(t, file) != 0o400 {
		t.Error(mode(t, file))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if give(true); mode(t, file) != 0o660 {
		t.Error(mode(t, file))
	}
}

func TestGiveToGroupLivesWithADeepTree(t *testing.T) {
	// given a volume in which a container has nested directories deeper than a path can be long
	dir := t.TempDir()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	const levels = podfile.MaxDepth + 10
	name := strings.Repeat("deep", 10)
	for range levels {
		if err := at.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = at.Close()
		at = next
	}
	_ = at.Close()
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	refused, err := chgrpTree(t.Context(), root, int(someGroup()), false)

	// then the pod gets what can be given, and the log can say what is not
	if err != nil || refused.files != 1 || !errors.Is(refused.first, podfile.ErrTooDeep) {
		t.Errorf("%+v, %v", refused, err)
	}
	if m := mode(t, filepath.Join(dir, name, name)); m != os.ModeDir|os.ModeSetgid|0o770 {
		t.Error(m)
	}
}
