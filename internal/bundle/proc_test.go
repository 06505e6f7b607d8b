package bundle

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fakeProc is a folder that looks like /proc.
type fakeProc struct {
	t     *testing.T
	table procTable
}

func newFakeProc(t *testing.T) fakeProc {
	t.Helper()
	return fakeProc{t: t, table: procTable{dir: t.TempDir()}}
}

func (f fakeProc) add(pid, parent int, start uint64, state, exe string, args ...string) {
	f.t.Helper()
	dir := filepath.Join(f.table.dir, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	stat := fmt.Sprintf("%d (odd) name) %s %d 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 8 0 %d 0 0\n", pid, state, parent, start)
	cmdline := strings.Join(args, "\x00") + "\x00"
	for name, content := range map[string]string{"stat": stat, "cmdline": cmdline} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	if exe != "" {
		if err := os.Symlink(exe, filepath.Join(dir, "exe")); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestOnlyTheContainerdOfThisRootIsFound(t *testing.T) {
	p := testPaths(t, "/var/lib/berth")
	f := newFakeProc(t)
	ours := []string{"containerd", "--config", p.config}
	f.add(10, 1, 100, "S", "/usr/libexec/berth/containerd", ours...)
	f.add(11, 10, 200, "S", "/usr/libexec/berth/containerd", ours...) // forked, not yet exec'd
	f.add(12, 1, 100, "S", "/usr/bin/vim", "vim", "--config", p.config)
	f.add(13, 1, 100, "S", "/usr/bin/containerd", "containerd")
	f.add(14, 1, 100, "S", "/usr/bin/containerd", "containerd", "--config", "/other/containerd.toml")
	f.add(15, 1, 100, "Z", "", "")
	f.add(16, 1, 100, "Z", "/usr/libexec/berth/containerd", ours...)

	found, err := f.table.find(p.isContainerd)
	if err != nil || len(found) != 1 || found[0].pid != 10 || found[0].start != 100 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestReplacedProgramIsStillOurs(t *testing.T) {
	p := testPaths(t, "/var/lib/berth")
	f := newFakeProc(t)
	f.add(10, 1, 100, "S", "/old/place/containerd (deleted)", "containerd", "--config", p.config)
	if found, err := f.table.find(p.isContainerd); err != nil || len(found) != 1 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestOnlyTheShimsOfThisRootAreFound(t *testing.T) {
	p := testPaths(t, "/var/lib/berth")
	f := newFakeProc(t)
	f.add(10, 1, 1, "S", p.shim, p.shim, "-namespace", "k8s.io", "-id", "a", "-address", p.socket)
	f.add(11, 1, 1, "S", p.shim, p.shim, "-namespace", "k8s.io", "-id", "b", "-address", "/run/containerd/containerd.sock")
	if found, err := f.table.find(p.isShim); err != nil || len(found) != 1 || found[0].pid != 10 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestStatusThatIsNotUnderstood(t *testing.T) {
	for _, stat := range []string{"", "1 (x", "1 (x) S 1", "1 (x) S y 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 8 0 5 0", "1 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 8 0 y 0"} {
		if info, err := parseStat(stat); err == nil {
			t.Errorf("%q was read as %+v", stat, info)
		}
	}
}

// These use a process that really runs: the test itself started it.
func sleeper(t *testing.T) (*exec.Cmd, procInfo, procTable) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kill(cmd) })
	table := procTable{dir: "/proc"}
	info, err := table.read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, info, table
}

func TestEndOfAProcessIsHeardOf(t *testing.T) {
	cmd, info, table := sleeper(t)
	h, err := table.open(info)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- h.wait(t.Context()) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errProcessGone) {
		t.Errorf("got %v", err)
	}
}

func TestStoppedProcessEnds(t *testing.T) {
	_, info, table := sleeper(t)
	h, err := table.open(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.stop(t.Context(), killWait); err != nil {
		t.Fatal(err)
	}
	if now, err := table.read(info.pid); err == nil && !now.zombie {
		t.Error("it still runs")
	}
}

func TestReusedPidIsNotOpened(t *testing.T) {
	_, info, table := sleeper(t)
	info.start-- // another process had this pid before
	if h, err := table.open(info); !errors.Is(err, errProcessGone) {
		t.Errorf("got %v, %v", h, err)
	}
}

func TestPidFileIsOnlyAHint(t *testing.T) {
	// given a pid file that names a process which is not containerd
	_, info, table := sleeper(t)
	p := testPaths(t, mkShort(t))
	l := &launcher{paths: p, procs: table, log: slog.New(slog.DiscardHandler)}
	if err := os.MkdirAll(p.run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.writePidFile(info, "x"); err != nil {
		t.Fatal(err)
	}
	// then nothing is adopted, and the file is no error when it is broken either
	for _, content := range []string{"", "{", "null", `{"pid":1}`, `{"pid":-7,"start":3}`} {
		if h, err := l.running(); h != nil || err != nil {
			t.Errorf("found %v, %v", h, err)
		}
		if err := os.WriteFile(p.pidFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// mkShort makes a directory with a path that is short enough for a root.
func mkShort(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestEnvironmentLooksForOurProgramsFirst(t *testing.T) {
	got := environment([]string{"A=1", "PATH=/opt/bin:/usr/bin", "NOTIFY_SOCKET=/run/x", "HTTPS_PROXY=p"}, "/libexec")
	want := []string{"A=1", "HTTPS_PROXY=p", "PATH=/libexec:/opt/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin:/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
