package podfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestDeepAndWideTreesAreRemoved(t *testing.T) {
	top := t.TempDir()
	tree := filepath.Join(top, "tree")
	wide := filepath.Join(tree, "wide")
	if err := os.MkdirAll(wide, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 2*removeBatch + 7 {
		if err := os.WriteFile(filepath.Join(wide, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What a removal left that was cut off.
	if err := os.MkdirAll(filepath.Join(tree, ".removed-0", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	// Deeper than a path can be long, and than a removal keeps open.
	nest(t, tree, strings.Repeat("deep", 10), 200)
	dir, err := OpenDir(top, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()

	if err := RemoveTree(dir, "tree"); err != nil {
		t.Fatal(err)
	}

	if left, err := os.ReadDir(top); len(left) > 0 || err != nil {
		t.Error(left, err)
	}
}

func TestAWideDirectoryIsListedOnceWhileItIsRemoved(t *testing.T) {
	// given a directory of many batches
	top := t.TempDir()
	must(t, os.Mkdir(filepath.Join(top, "wide"), 0o700))
	for i := range 5 * removeBatch {
		must(t, syscall.Mknod(filepath.Join(top, "wide", fmt.Sprint(i)), syscall.S_IFREG|0o600, 0))
	}
	r := &remover{}
	must(t, r.tree(openRoot(t, top), "wide", 0))

	// then one pass removes them, and another one finds nothing
	if left, err := os.ReadDir(top); len(left) > 0 || err != nil {
		t.Error(left, err)
	}
	if r.passes != 2 {
		t.Errorf("the directory was listed %d times from its start", r.passes)
	}
}

func TestRemoveAllRemovesAnything(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	must(t,
		os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600),
		os.WriteFile(filepath.Join(base, "file"), nil, 0o600),
		os.Symlink(outside, filepath.Join(base, "link")),
		syscall.Mkfifo(filepath.Join(base, "pipe"), 0o600),
		os.MkdirAll(filepath.Join(base, "dir", "dir"), 0o700),
		os.Symlink(outside, filepath.Join(base, "dir", "link")),
	)
	for _, name := range []string{"file", "link", "pipe", "dir", "none"} {
		if err := RemoveAll(base, name); err != nil {
			t.Error(err)
		}
	}
	if err := RemoveAll(filepath.Join(base, "none"), "file"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(base); len(left) > 0 || err != nil {
		t.Error(left, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error("a link was followed:", err)
	}
}

func TestADirectoryIsNoEntryOfItself(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(top, "dir", "kept"), 0o700))
	for _, name := range []string{".", ".."} {
		if err := RemoveAll(filepath.Join(top, "dir"), name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	if _, err := os.Stat(filepath.Join(top, "dir", "kept")); err != nil {
		t.Error(err)
	}
}
