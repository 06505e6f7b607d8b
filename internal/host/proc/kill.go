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

// killBatchSize is how many pidfds KillAll has open at a time.
const killBatchSize = 128

// KillAll kills the processes that list returns, and returns their pids. list is called again
// once the processes are held by pidfds, and only processes of both lists are killed: between
// list and signal, a pid may have become that of another process. If list returns process 1 or
// the caller, KillAll kills nothing and fails. It does not wait for the processes to end.
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
	for some := range slices.Chunk(pids, killBatchSize) {
		ended, err := killBatch(some, list)
		killed = append(killed, ended...)
		if err != nil {
			return killed, err
		}
	}
	return killed, nil
}

func killBatch(pids []int, list func() ([]int, error)) ([]int, error) {
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

// SetProcessGroup prepares a command to start in a process group of its own, which is killed as a
// whole when the context of the command ends: a helper program ends together with its children.
func SetProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return KillGroup(cmd) }
}

// KillGroup kills the process group of a command that SetProcessGroup has prepared. The kernel
// gives the id of a group to no other group while one of its processes is left.
func KillGroup(cmd *exec.Cmd) error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
