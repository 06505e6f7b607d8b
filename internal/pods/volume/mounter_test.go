package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unmounter is a kernel for which a script unmounts.
func unmounter(t *testing.T, script string) Kernel {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unmounter")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Kernel{Unmounter: []string{path}}
}

func TestUnmountEndsAProgramThatHangs(t *testing.T) {
	kernel := unmounter(t, "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := kernel.Unmount(ctx, MountPoint{Path: "/mnt/dead", FSType: "nfs4"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "umount did not end") {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Error("it took", took)
	}
}

func TestAProgramIsEndedWithThoseThatItStarted(t *testing.T) {
	// given a program that has another one do the work, as mount(8) has mount.nfs
	note := filepath.Join(t.TempDir(), "pid")
	kernel := unmounter(t, "sleep 60 &\necho $! >"+note+".new\nmv "+note+".new "+note+"\nwait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- kernel.Unmount(ctx, MountPoint{Path: "/mnt/dead", FSType: "nfs4"}) }()
	var worker int
	eventually(t, "the other program to run", func() bool {
		text, err := os.ReadFile(note)
		if err == nil {
			worker, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})

	// when it is given up, then neither of them is left
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	eventually(t, "the other program to end", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", worker))
		return err != nil || strings.Contains(string(state), ") Z ") // a zombie has ended
	})
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestUnmountReturnsTheReasonOfItsFailure(t *testing.T) {
	at := MountPoint{Path: "/mnt/data", FSType: "nfs4"}
	// the number of an error is that error
	err := unmounter(t, `[ $# = 1 ] && [ $1 = /mnt/data ] && exit 16`).Unmount(t.Context(), at)
	if !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
	// anything else that the program prints is in the error
	err = unmounter(t, `echo "panic: no memory" >&2; echo more >&2; exit 2`).Unmount(t.Context(), at)
	if err == nil || err.Error() != "exit status 2: panic: no memory" {
		t.Error(err)
	}
	if err := (Kernel{}).Unmount(t.Context(), at); err == nil {
		t.Error("nobody has unmounted it, and that is no error")
	}
	if err := (Kernel{Unmounter: []string{"/no/such"}}).Unmount(t.Context(), at); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if got := UnmountNow(filepath.Join(t.TempDir(), "none")); got == 0 {
		t.Error("something that is not there was unmounted")
	}
}

func TestFileSystemsWithAHelperAreMountedByIt(t *testing.T) {
	helpers := t.TempDir()
	said := filepath.Join(helpers, "said")
	ask := func(script string, options ...string) error {
		t.Helper()
		if err := os.WriteFile(filepath.Join(helpers, "mount.nfs"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		return mountRemote(t.Context(), []string{"/no/such", helpers}, "nfs", "files:/x", "/mnt/x", options)
	}
	for _, c := range []struct {
		options []string
		want    string
	}{
		{nil, "files:/x /mnt/x\n"},
		{[]string{"ro", "vers=4.2", "x-systemd.automount", "X-mount.mkdir"}, "files:/x /mnt/x -o ro,vers=4.2\n"},
	} {
		err := ask(`echo "$@" >`+said, c.options...)
		if got, _ := os.ReadFile(said); err != nil || string(got) != c.want {
			t.Errorf("it was asked for %q, want %q; %v", got, c.want, err)
		}
	}
	if err := ask("echo mount.nfs: access denied >&2; exit 32"); err == nil || err.Error() != "exit status 32: mount.nfs: access denied" {
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
