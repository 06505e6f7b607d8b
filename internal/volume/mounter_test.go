package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// umount puts a program of that name in the place of the real one.
func umount(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "umount"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestUnmountEndsAProgramThatHangs(t *testing.T) {
	umount(t, "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := Kernel{}.Unmount(ctx, MountPoint{Path: "/mnt/dead", FSType: "nfs4"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "umount did not end") {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Error("it took", took)
	}
}

func TestUnmountTellsWhatTheProgramSaid(t *testing.T) {
	umount(t, `for last; do :; done; echo "umount: $last: target is busy." >&2; exit 32`)
	err := Kernel{}.Unmount(t.Context(), MountPoint{Path: "/mnt/data", FSType: "ext4"})
	if err == nil || err.Error() != "exit status 32: umount: /mnt/data: target is busy." {
		t.Error(err)
	}
}

func TestWhatIsAMountPoint(t *testing.T) {
	for path, want := range map[string]bool{"/": true, "/proc": true, t.TempDir(): false, "/no/such": false} {
		if got, err := (Kernel{}).IsMount(path); got != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	below, err := Kernel{}.Below("")
	if err != nil || len(below) == 0 || strings.Count(below[0].Path, "/") < strings.Count(below[len(below)-1].Path, "/") {
		t.Error("not the deepest first:", below, err)
	}
}
