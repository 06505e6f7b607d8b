package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/host/proc"
	"berth/internal/host/proc/proctest"
)

func TestOnlyProcessesOfTheMachineAreFound(t *testing.T) {
	// given one process of the machine, one that looks like it in each kind of container, one
	// of another user, and one that has ended
	f := proctest.New(t)
	args := []string{"runtime", "--config", "x"}
	f.Add(proctest.Process{PID: 10, Start: 100, Exe: "/bin/runtime", Args: args})
	f.Add(proctest.Process{PID: 20, Exe: "/bin/runtime", Args: args, PIDNamespace: "pid:[9]", MountNamespace: "mnt:[9]"})
	f.Add(proctest.Process{PID: 21, Exe: "/bin/runtime", Args: args, MountNamespace: "mnt:[9]"}) // hostPID
	f.Add(proctest.Process{PID: 22, Exe: "/bin/runtime", Args: args, PIDNamespace: "pid:[9]"})
	f.Add(proctest.Process{PID: 23, Exe: "/bin/runtime", Args: args, User: os.Getuid() + 1})
	f.Add(proctest.Process{PID: 24, Exe: "/bin/runtime", Args: args, State: "Z"})
	f.Add(proctest.Process{PID: 25, Parent: 10, Exe: "/bin/runtime", Args: args}) // forked, and no other program yet

	found, err := f.Table().Find(func(i proc.Info) bool { return i.Exe == "/bin/runtime" && slices.Equal(i.Args, args) })
	if err != nil || len(found) != 1 || found[0].PID != 10 || found[0].Start != 100 {
		t.Errorf("found %+v, %v", found, err)
	}
}

func TestCommandLinesOfContainersAreNotRead(t *testing.T) {
	// given a process of a container whose command line blocks its readers
	f := proctest.New(t)
	f.Add(proctest.Process{PID: 20, Exe: "/bin/x", MountNamespace: "mnt:[9]"})
	path := filepath.Join(f.Table().Dir, "20", "cmdline")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	// then it is described all the same, without it
	read := make(chan proc.Info)
	go func() {
		info, _ := f.Table().Read(20)
		read <- info
	}()
	select {
	case info := <-read:
		if info.Own || info.Args != nil || info.Exe != "/bin/x" {
			t.Errorf("got %+v", info)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("reading it blocks")
	}
}

func TestCommandLineWithoutEnd(t *testing.T) {
	f := proctest.New(t)
	f.Add(proctest.Process{PID: 20, Exe: "/bin/x"})
	if err := os.Truncate(filepath.Join(f.Table().Dir, "20", "cmdline"), 1<<40); err != nil {
		t.Fatal(err)
	}
	info, err := f.Table().Read(20)
	total := 0
	for _, a := range info.Args {
		total += len(a) + 1
	}
	if err != nil || total > 64<<10 {
		t.Errorf("read %d bytes, %v", total, err)
	}
}

func TestProcessesThatAreNotUnderstood(t *testing.T) {
	for _, stat := range []string{"", "1 (x", "1 (x) S 1", "1 (x) S y 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 8 0 5 0", "1 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 8 0 y 0"} {
		f := proctest.New(t)
		f.Add(proctest.Process{PID: 20, Exe: "/bin/x"})
		if err := os.WriteFile(filepath.Join(f.Table().Dir, "20", "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := f.Table().Read(20); err == nil {
			t.Errorf("%q was read as %+v", stat, info)
		}
	}
}

// machine is the one that the test runs on.
var machine = proc.Table{Dir: "/proc"}

// sleeper starts a process, and describes it.
func sleeper(t *testing.T) (*exec.Cmd, proc.Info) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	info, err := machine.Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, info
}

func TestAProcessOfTheMachineIsDescribed(t *testing.T) {
	_, info := sleeper(t)
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	file, err := proc.FileOf(program)
	if err != nil || !info.Own || info.File != file || info.Parent != os.Getpid() || info.User != os.Getuid() || info.Replaced {
		t.Errorf("got %+v, want file %+v (%v)", info, file, err)
	}
}

func TestEndOfAProcessIsHeardOf(t *testing.T) {
	cmd, info := sleeper(t)
	h, err := machine.Open(info)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ended := make(chan error)
	go func() { ended <- h.Ended(t.Context()) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, proc.ErrGone) {
		t.Errorf("got %v", err)
	}
}

func TestStartedProcessIsReaped(t *testing.T) {
	h, err := machine.Start(exec.Command("sh", "-c", "exit 3"))
	if errors.Is(err, proc.ErrGone) {
		return // it was faster than the one who starts it, and reaped
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var exit *exec.ExitError
	if err := h.Ended(t.Context()); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("got %v", err)
	}
	if _, err := machine.Read(h.PID()); err == nil {
		t.Error("it is left as a zombie")
	}
}

func TestStoppedProcessEnds(t *testing.T) {
	_, info := sleeper(t)
	h, err := machine.Open(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if now, err := machine.Read(info.PID); err == nil && !now.Zombie {
		t.Error("it still runs")
	}
}

func TestReusedPidIsNotOpened(t *testing.T) {
	_, info := sleeper(t)
	info.Start-- // another process had this pid before
	if h, err := machine.Open(info); !errors.Is(err, proc.ErrGone) {
		t.Errorf("got %v, %v", h, err)
	}
}

func TestOnlyTheHolderOfALockHoldsIt(t *testing.T) {
	// given a file that this process has locked, and one that it has only open
	open := func(name string) *os.File {
		file, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	locked, other := open("locked"), open("open")
	if err := syscall.Flock(int(locked.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	self, err := machine.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	_, sleeping := sleeper(t)
	for _, c := range []struct {
		of   proc.Info
		file *os.File
		want bool
	}{{self, locked, true}, {self, other, false}, {sleeping, locked, false}} {
		h, err := machine.Open(c.of)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.HoldsLock(c.file); got != c.want || err != nil {
			t.Errorf("process %d and %s: got %v, %v", c.of.PID, c.file.Name(), got, err)
		}
		h.Close()
	}
}

func TestOnlyListedProcessesAreKilled(t *testing.T) {
	// given a process that is in the list at first, and not any more when it is held: its pid
	// has become that of another one
	stays, _ := sleeper(t)
	goes, _ := sleeper(t)
	lists := [][]int{{stays.Process.Pid, goes.Process.Pid}, {goes.Process.Pid}}
	killed, err := proc.KillAll(func() ([]int, error) {
		now := lists[0]
		lists = lists[1:]
		return now, nil
	})
	if err != nil || !slices.Equal(killed, []int{goes.Process.Pid}) {
		t.Errorf("killed %v, %v", killed, err)
	}
	_ = goes.Wait()
	if err := stays.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

func TestSelfAndInitAreNotKilled(t *testing.T) {
	for _, pid := range []int{os.Getpid(), 1, 0, -1} {
		if killed, err := proc.KillAll(func() ([]int, error) { return []int{pid}, nil }); err == nil || killed != nil {
			t.Errorf("%d: killed %v, %v", pid, killed, err)
		}
	}
}

func TestMoreProcessesThanAreHeldAtOnce(t *testing.T) {
	var pids []int
	for range 300 {
		pids = append(pids, 4194305) // above the highest pid of a kernel
	}
	last, _ := sleeper(t)
	pids = append(pids, last.Process.Pid)
	killed, err := proc.KillAll(func() ([]int, error) { return pids, nil })
	if err != nil || fmt.Sprint(killed) != fmt.Sprint([]int{last.Process.Pid}) {
		t.Errorf("killed %v, %v", killed, err)
	}
}
