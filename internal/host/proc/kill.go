package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// atOnce is how many processes KillAll holds on to at the same time.
const atOnce = 128

// KillAll ends the processes that list returns, by force, and returns their pids. A process
// is held first and has to be in the list again then: between the list and the signal its pid
// may have become that of another one. Process 1 and the caller are never killed: they make it
// fail. KillAll does not wait for the processes to go.
func KillAll(list func() ([]int, error)) ([]int, error) {
	pids, err := list()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if pid == os.Getpid() || pid <= 1 {
			return nil, fmt.Errorf("process %d would be killed", pid)
		}
	}
	var killed []int
	for some := range slices.Chunk(pids, atOnce) {
		ended, err := killSome(some, list)
		killed = append(killed, ended...)
		if err != nil {
			return killed, err
		}
	}
	return killed, nil
}

func killSome(pids []int, list func() ([]int, error)) ([]int, error) {
	held := map[int]int{} // pidfd by pid
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open process %d: %w", pid, err)
		}
		held[pid] = fd
	}
	again, err := list()
	if err != nil {
		return nil, err
	}
	var killed []int
	for _, pid := range again {
		fd, ok := held[pid]
		if !ok {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return killed, fmt.Errorf("kill process %d: %w", pid, err)
		}
		killed = append(killed, pid)
	}
	return killed, nil
}

// InGroup makes a command that was not started yet the first of a process group, and has the
// end of its context kill the whole group: a helper program goes together with the programs
// that it has started. KillGroup does the same by hand.
func InGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return KillGroup(cmd) }
}

// KillGroup kills the process group of a command that InGroup was called for. The kernel gives
// the number of a group to nobody while one of its processes is left.
func KillGroup(cmd *exec.Cmd) error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
