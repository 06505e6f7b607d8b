// Package rootlock lets one agent at a time work in a root directory. The kernel holds the lock, so
// it ends with the process of its holder.
package rootlock

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

	"golang.org/x/sys/unix"

	"berth/internal/host/proc"
	"berth/internal/lib/statefile"
)

// lockFile is locked while an agent works in the root directory, and holds its pid. Only root
// may read it: a user who can open a file can lock it.
const lockFile = "berth.lock"

// holderTimeout is how long TakeOver waits for the holder of the lock to be known.
const holderTimeout = 5 * time.Second

// Lock is the right to work in a root directory. The kernel gives it back
// when its holder dies, however that happens.
//
// The directory is locked, which works on any disk, and a file in it, which names the holder
// if it can be written.
type Lock struct{ held []*os.File }

// HeldError is the error if another process holds the lock.
type HeldError struct {
	root string
	pid  int // 0 if it is not known
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("another berth (pid %d) works in %s: stop it first, or give this one its own --root-dir", e.pid, e.root)
}

// Acquire takes the lock of a root directory, which it makes if need be.
func Acquire(root string) (*Lock, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("make the root directory: %w", err)
	}
	lock := &Lock{}
	dir, err := os.Open(root)
	if err != nil {
		return nil, fmt.Errorf("open the root directory: %w", err)
	}
	// Any user can lock a directory that they can read, and must not keep the agent from
	// its work: the file, which only root can open, decides then.
	if err := lock.add(dir, root); err != nil && !heldByAnotherUser(err) {
		return nil, err
	}
	file, writable, err := openLockFile(filepath.Join(root, lockFile))
	if err != nil {
		lock.Release()
		return nil, fmt.Errorf("open the lock of the root directory: %w", err)
	}
	switch {
	case file != nil:
		if err := lock.add(file, root); err != nil {
			return nil, err
		}
	case len(lock.held) == 0:
		return nil, fmt.Errorf("%s is on a disk that can't be written and is locked by another user than root: find the holder with 'fuser %s', and end it", root, root)
	}
	if writable {
		if err := writePID(file); err != nil && !statefile.CantWrite(err) {
			lock.Release()
			return nil, fmt.Errorf("write %s: %w", file.Name(), err)
		}
	}
	return lock, nil
}

// heldByAnotherUser reports whether a lock is held by a process that can't be an agent.
func heldByAnotherUser(err error) bool {
	var locked *HeldError
	if !errors.As(err, &locked) || locked.pid == 0 {
		return false
	}
	info, err := proc.Table{Dir: "/proc"}.Read(locked.pid)
	return err == nil && info.User != os.Getuid()
}

// openLockFile opens the file, on a disk that can't be written for reading. It returns nil if
// there is none, and none can be made.
func openLockFile(path string) (file *os.File, writable bool, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = file.Chmod(0o600) // an older version let all read it
		if err != nil && !statefile.CantWrite(err) {
			return nil, false, errors.Join(err, file.Close())
		}
		return file, true, nil
	}
	if !statefile.CantWrite(err) {
		return nil, false, err
	}
	file, err = os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	return file, false, err
}

// add locks a file for this Lock. If that fails, all files of the Lock are released.
func (l *Lock) add(file *os.File, root string) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		l.held = append(l.held, file)
		return nil
	}
	defer l.Release()
	defer file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &HeldError{root: root, pid: holder(file, root)}
	}
	return fmt.Errorf("lock %s: %w", file.Name(), err)
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder returns the pid of the process that has locked a file of a root directory, or 0 if it is not
// known. The kernel's list of locks comes first: the pid in the file may be outdated, since a full disk
// keeps it from being written.
func holder(file *os.File, root string) int {
	var stat unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err == nil {
		err = unix.Fstat(int(file.Fd()), &stat)
	}
	if err == nil {
		if pid := flockHolder(string(locks), stat.Dev, stat.Ino); pid > 0 {
			return pid
		}
	}
	return writtenPID(root)
}

// writtenPID returns the pid in the lock file, or 0. The process may have ended since.
func writtenPID(root string) int {
	text, err := os.ReadFile(filepath.Join(root, lockFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// Holder returns the pid of the process that holds the lock of a root directory, or 0 if there is none
// or it is not known. It does not try to lock the file, and verifies the pid that is written in it.
func Holder(root string) int {
	path := filepath.Join(root, lockFile)
	var stat unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err == nil && unix.Stat(path, &stat) == nil {
		if pid := flockHolder(string(locks), stat.Dev, stat.Ino); pid > 0 {
			return pid
		}
	}
	// There are file systems whose device has another number in that table.
	table := proc.Table{Dir: "/proc"}
	info, err := table.Read(writtenPID(root))
	if err != nil {
		return 0
	}
	process, err := table.Open(info)
	if err != nil {
		return 0
	}
	defer process.Close()
	if holds, err := holdsLock(process, path); err != nil || !holds {
		return 0
	}
	return info.PID
}

// flockHolder finds the process that has locked a whole file in the text of /proc/locks.
func flockHolder(locks string, device, inode uint64) int {
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), inode)
	for line := range strings.Lines(locks) {
		// number, kind, ADVISORY, WRITE, process, file, and which part of it
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != id {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil {
			return pid
		}
	}
	return 0
}

// Release gives the lock back.
func (l *Lock) Release() {
	for _, file := range l.held {
		_ = file.Close()
	}
	l.held = nil
}

// TakeOver asks the agent that works in root, if there is one, to end, and takes
// its lock. Pods and runtime stay as they are.
func TakeOver(ctx context.Context, root string) (*Lock, error) {
	asked, unknown := 0, time.After(holderTimeout)
	for {
		lock, err := Acquire(root)
		var locked *HeldError
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
			return nil, fmt.Errorf("%s is locked, and its holder (process %d?) can't be asked to end: find it with 'fuser %s', and end it", root, locked.pid, filepath.Join(root, lockFile))
		}
		return nil, fmt.Errorf("the agent (pid %d) does not end: %w", asked, ctx.Err())
	}
}

// askToEnd sends SIGTERM to a process, if it holds the lock of root. A pid that was written
// down may be that of an earlier holder, which another process has by now: the kernel knows
// the holder.
func askToEnd(root string, pid int) (bool, error) {
	table := proc.Table{Dir: "/proc"}
	info, err := table.Read(pid)
	if err != nil || pid == os.Getpid() {
		return false, nil // there is no such process, or none that could wait for itself
	}
	agent, err := table.Open(info)
	if errors.Is(err, proc.ErrGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer agent.Close()
	for _, path := range []string{filepath.Join(root, lockFile), root} {
		holds, err := holdsLock(agent, path)
		if err != nil {
			return false, err
		}
		if holds {
			return true, agent.Signal(syscall.SIGTERM)
		}
	}
	return false, nil
}

func holdsLock(agent *proc.Handle, path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // on a disk that can't be written
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	return agent.HoldsLock(file)
}
