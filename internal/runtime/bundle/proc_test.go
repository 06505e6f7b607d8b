package bundle

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"berth/internal/host/proc"
	"berth/internal/host/proc/proctest"
)

// bundled is a root whose containerd and shim are files that are there.
func bundled(t *testing.T) paths {
	t.Helper()
	p, err := newPaths(mkShort(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{p.containerd, p.shim} {
		if err := os.WriteFile(program, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// copyOf is another file with the same name.
func copyOf(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOnlyTheContainerdOfThisRootIsFound(t *testing.T) {
	p := bundled(t)
	f := proctest.New(t)
	args := []string{"containerd", "--config", p.config}
	f.Add(proctest.Process{PID: 10, Start: 100, Exe: p.containerd, Args: args})
	f.Add(proctest.Process{PID: 12, Exe: p.shim, Args: args})
	f.Add(proctest.Process{PID: 13, Exe: p.containerd, Args: []string{"containerd"}})
	f.Add(proctest.Process{PID: 14, Exe: p.containerd, Args: []string{"containerd", "--config", "/other/containerd.toml"}})
	f.Add(proctest.Process{PID: 15, Exe: copyOf(t, p.containerd), Args: args})
	// in a container that has the folder of the bundled programs, and in one with hostPID
	f.Add(proctest.Process{PID: 16, Exe: p.containerd, Args: args, PIDNamespace: "pid:[9]", MountNamespace: "mnt:[9]"})
	f.Add(proctest.Process{PID: 17, Exe: p.containerd, Args: args, MountNamespace: "mnt:[9]"})
	f.Add(proctest.Process{PID: 18, Exe: "/containerd (deleted)", Args: args, MountNamespace: "mnt:[9]"})

	found, err := f.Table().Find(p.isContainerd)
	if err != nil || len(found) != 1 || found[0].PID != 10 || found[0].Start != 100 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestReplacedProgramIsStillOurs(t *testing.T) {
	p := bundled(t)
	f := proctest.New(t)
	f.Add(proctest.Process{PID: 10, Exe: "/old/place/containerd (deleted)", Args: []string{"containerd", "--config", p.config}})
	if found, err := f.Table().Find(p.isContainerd); err != nil || len(found) != 1 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestOnlyTheShimsOfThisRootAreFound(t *testing.T) {
	p := bundled(t)
	f := proctest.New(t)
	args := func(socket string) []string {
		return []string{p.shim, "-namespace", "k8s.io", "-id", "a", "-address", socket}
	}
	f.Add(proctest.Process{PID: 10, Exe: p.shim, Args: args(p.socket)})
	f.Add(proctest.Process{PID: 11, Exe: p.shim, Args: args("/run/containerd/containerd.sock")})
	f.Add(proctest.Process{PID: 12, Exe: copyOf(t, p.shim), Args: args(p.socket)}) // of an earlier version
	f.Add(proctest.Process{PID: 13, Exe: p.shim, Args: args(p.socket), PIDNamespace: "pid:[9]", MountNamespace: "mnt:[9]"})
	f.Add(proctest.Process{PID: 14, Exe: p.shim, Args: args(p.socket), MountNamespace: "mnt:[9]"})
	found, err := f.Table().Find(p.isShim)
	if err != nil || len(found) != 2 || found[0].PID != 10 || found[1].PID != 12 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestTheRecordedContainerdIsKnownAgain(t *testing.T) {
	p := bundled(t)
	l := newLauncher(p, slog.New(slog.DiscardHandler))
	args := []string{"containerd", "--config", p.config}
	old := copyOf(t, p.containerd) // of an earlier version, in a folder of its own
	f := proctest.New(t)
	f.Add(proctest.Process{PID: 10, Start: 100, Exe: old, Args: args})
	f.Add(proctest.Process{PID: 11, Start: 100, Exe: old, Args: args, MountNamespace: "mnt:[9]"})
	f.Add(proctest.Process{PID: 12, Start: 100, Exe: old, Args: args, PIDNamespace: "pid:[9]", MountNamespace: "mnt:[9]"})
	read := func(pid int) proc.Info {
		t.Helper()
		info, err := f.Table().Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	record := func(of proc.Info, change func(*pidRecord)) pidRecord {
		r := pidRecord{PID: of.PID, Start: of.Start, Exe: of.File, Namespaces: of.Namespaces}
		if change != nil {
			change(&r)
		}
		return r
	}
	older := func(r *pidRecord) { r.Exe, r.Namespaces = proc.File{}, proc.Namespaces{} }
	for _, c := range []struct {
		name   string
		record pidRecord
		is     proc.Info
		want   bool
	}{
		{"its program is not the bundled one any more", record(read(10), nil), read(10), true},
		{"it was started in another mount namespace", record(read(11), nil), read(11), true},
		{"its pid is that of another process", record(read(10), func(r *pidRecord) { r.Start-- }), read(10), false},
		{"it runs another file", record(read(10), func(r *pidRecord) { r.Exe.Inode++ }), read(10), false},
		{"it is in a container", record(read(10), func(r *pidRecord) { r.PID = 12 }), read(12), false},
		{"an older version wrote the record", record(read(10), older), read(10), true},
		{"an older version wrote the record, and it is in a container", record(read(12), older), read(12), false},
		{"an older version wrote the record, and it is in a container with hostPID", record(read(11), older), read(11), false},
	} {
		if got := l.recorded(c.record, c.is); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestPidFileIsOnlyAHint(t *testing.T) {
	// given a pid file that names a process which is not containerd
	info, err := proc.Table{Dir: "/proc"}.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p := testPaths(t, mkShort(t))
	l := newLauncher(p, slog.New(slog.DiscardHandler))
	if err := os.MkdirAll(p.run, 0o700); err != nil {
		t.Fatal(err)
	}
	l.pids = newState(t, l.log).File(p.pidFile, "which process is containerd")
	l.writePidFile(info, "x")
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

func TestAProcessThatHasEndedNeedNotBeKilled(t *testing.T) {
	// given a process that has ended, and was let go of
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	child, err := proc.Table{Dir: "/proc"}.Start(cat)
	if err != nil {
		t.Fatal(err)
	}
	h := &handle{child}
	_ = in.Close()
	if err := h.wait(t.Context()); t.Context().Err() != nil {
		t.Fatal(err)
	}
	// when it is about to be killed, then there is nothing to do
	if err := h.kill(); err != nil {
		t.Errorf("got %v", err)
	}
}
