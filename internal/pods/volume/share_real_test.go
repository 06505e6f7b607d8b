//go:build real

package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/host/mounts"
)

// sharedBy returns the mount that a directory is on, and whether it is shared.
func sharedBy(t *testing.T, dir string) (at string, shared bool) {
	t.Helper()
	table, err := mounts.Read()
	if err != nil {
		t.Fatal(err)
	}
	m := table.Under(dir)
	return m.Mountpoint, strings.Contains(m.Optional, "shared:")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRealMountsInTheDirectoryOfPodsTravel(t *testing.T) {
	// given a directory on a private mount, at the end of a link
	dir := filepath.Join(t.TempDir(), "pods")
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Symlink(dir, link))
	before, shared := sharedBy(t, dir)
	if shared {
		t.Fatal("these tests have private mounts")
	}

	// when it is shared, twice, then it is, with all that is in it
	for range 2 {
		must(t, ShareMounts(link))
		if at, shared := sharedBy(t, dir); at != dir || !shared {
			t.Fatalf("it is on %s, shared: %t", at, shared)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	// and what is mounted in it is shared as well
	at := filepath.Join(dir, "ram")
	must(t, os.Mkdir(at, 0o700))
	must(t, unix.Mount("tmpfs", at, "tmpfs", 0, "mode=0700"))
	if _, shared := sharedBy(t, at); !shared {
		t.Error("what is mounted in it is not shared")
	}
	must(t, unix.Unmount(at, 0))

	// when that is undone, twice, then it is as it was
	for range 2 {
		must(t, UnshareMounts(link))
		if at, _ := sharedBy(t, dir); at != before {
			t.Fatalf("it is on %s", at)
		}
	}
	must(t, UnshareMounts(filepath.Join(dir, "none")))
}

func TestRealAMountOfTheUserIsSharedAndKept(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	must(t, ShareMounts(dir))
	if at, shared := sharedBy(t, dir); at != dir || !shared {
		t.Errorf("it is on %s, shared: %t", at, shared)
	}
	must(t, UnshareMounts(dir))
	if at, _ := sharedBy(t, dir); at != dir {
		t.Error("it was taken away")
	}
}

func TestRealNoMountIsHidden(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "ram")
	must(t, os.Mkdir(at, 0o700))
	must(t, unix.Mount("tmpfs", at, "tmpfs", 0, "mode=0700"))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if err := ShareMounts(dir); err == nil || !strings.Contains(err.Error(), "something is mounted there already") {
		t.Error(err)
	}
	if got, _ := sharedBy(t, dir); got == dir {
		t.Error("it hides what is mounted there")
	}
}
