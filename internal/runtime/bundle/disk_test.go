package bundle

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/lib/statefile"
)

func newState(t testing.TB, log *slog.Logger) *statefile.Keeper {
	t.Helper()
	k, err := statefile.New(statefile.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// aContainerd makes a program that is started as containerd, and does nothing.
func aContainerd(t *testing.T, p paths) {
	t.Helper()
	for _, dir := range []string{p.libexec, p.run, p.logDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(p.containerd, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAContainerdWhosePidFileCanNotBeWrittenRuns(t *testing.T) {
	// given a pid file that can't be written
	p := testPaths(t, mkShort(t))
	p.libexec = filepath.Join(p.root, "libexec")
	p.containerd = filepath.Join(p.libexec, "containerd")
	aContainerd(t, p)
	if err := os.MkdirAll(filepath.Join(p.pidFile, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	var said recorder
	log := slog.New(slog.NewTextHandler(&said, nil))
	l := newLauncher(p, log)
	l.pids = newState(t, log).File(p.pidFile, "which process is containerd")

	// when it is started, then it is not killed for that, and the log says what is lost
	h, err := l.start()
	if err != nil {
		t.Fatalf("it is not started: %v", err)
	}
	started, ok := h.(*handle)
	if !ok {
		t.Fatalf("it is a %T", h)
	}
	if err := started.stop(t.Context(), time.Second); err != nil {
		t.Errorf("it does not run: %v", err)
	}
	if !strings.Contains(said.String(), "which process is containerd") {
		t.Errorf("the log says:\n%s", said.String())
	}
}

func TestALogIsTrimmedWhereThereIsNoRoomForItsEnd(t *testing.T) {
	// given a long log, on whose end the disk is full
	path := filepath.Join(t.TempDir(), "containerd.log")
	if err := os.WriteFile(path, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", oldLog(path)); err != nil {
		t.Fatal(err)
	}

	// when it is trimmed, then it is empty, and nothing is kept
	if err := trimLog(path, 10); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the log has %d bytes: %v", info.Size(), err)
	}
	if _, err := os.Lstat(oldLog(path)); !os.IsNotExist(err) {
		t.Errorf("an old log is left: %v", err)
	}
}

func TestTheReserveIsSpentOnAFullDiskAlone(t *testing.T) {
	// given a disk with room
	p := testPaths(t, mkShort(t))
	if err := os.MkdirAll(p.run, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := keepReserve(p); err != nil {
			t.Fatal(err)
		}
	}

	// then the reserve takes room, and a start leaves it alone
	newLauncher(p, slog.New(slog.DiscardHandler)).spendReserve()
	var s unix.Stat_t
	if err := unix.Stat(p.reserve, &s); err != nil || s.Blocks*512 < reserveSize {
		t.Errorf("the reserve has %d blocks: %v", s.Blocks, err)
	}
}
