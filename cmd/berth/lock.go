package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/proc"
)

// lockFile is locked while somebody works in the root directory, and holds their pid. Only root
// may read it: whoever can open a file can lock it.
const lockFile = "berth.lock"

// holderWait is how long the holder of the lock may take to write down its pid.
const holderWait = 5 * time.Second

// rootLock is the right to work in a root directory. The kernel gives it back
// when its holder dies, however that happens.
type rootLock struct{ file *os.File }

// lockedError says who holds the lock.
type lockedError struct {
	root string
	pid  int // 0 if it can't be read
}

func (e *lockedError) Error() string {
	return fmt.Sprintf("another berth (pid %d) works in %s: stop it first, or give this one its own --root-dir", e.pid, e.root)
}

// lockRoot takes the lock of a root directory, which it makes if need be.
func lockRoot(root string) (*rootLock, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("make the root directory: %w", err)
	}
	path := filepath.Join(root, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err == nil {
		err = file.Chmod(0o600) // an older version let all read it
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock of the root directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, &lockedError{root: root, pid: holder(path)}
	}
	if err := file.Truncate(0); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, errors.Join(err, file.Close()))
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, errors.Join(err, file.Close()))
	}
	return &rootLock{file}, nil
}

func holder(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// release gives the lock back.
func (l *rootLock) release() { _ = l.file.Close() }

// takeOver asks the agent that works in root, if there is one, to end, and takes
// its lock. Pods and runtime stay as they are.
func takeOver(ctx context.Context, root string) (*rootLock, error) {
	asked, unknown := 0, time.After(holderWait)
	for {
		lock, err := lockRoot(root)
		var locked *lockedError
		if !errors.As(err, &locked) {
			return lock, err
		}
		if asked != locked.pid {
			sent, err := askToEnd(root, locked.pid)
			if err != nil {
				return nil, fmt.Errorf("ask the agent (pid %d) to end: %w", locked.pid, err)
			}
			if sent {
				asked = locked.pid
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-unknown:
			if asked != 0 {
				continue
			}
		case <-ctx.Done():
		}
		if asked == 0 {
			path := filepath.Join(root, lockFile)
			return nil, fmt.Errorf("%s is locked, but not by process %d, which it names: find the holder with 'fuser %s', and end it", path, locked.pid, path)
		}
		return nil, fmt.Errorf("the agent (pid %d) does not end: %w", asked, ctx.Err())
	}
}

// askToEnd sends SIGTERM to a process, if it holds the lock of root. The pid in the file may be
// that of an earlier holder, which another process has by now: the kernel knows the holder.
func askToEnd(root string, pid int) (bool, error) {
	table := proc.Table{Dir: "/proc"}
	info, err := table.Read(pid)
	if err != nil {
		return false, nil // there is no such process
	}
	agent, err := table.Open(info)
	if errors.Is(err, proc.ErrGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer agent.Close()
	file, err := os.Open(filepath.Join(root, lockFile))
	if err != nil {
		return false, err
	}
	defer file.Close()
	if holds, err := agent.HoldsLock(file); err != nil || !holds {
		return false, err
	}
	return true, agent.Signal(syscall.SIGTERM)
}
