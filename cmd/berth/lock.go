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
)

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
	path := filepath.Join(root, "berth.lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
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
	lock, err := lockRoot(root)
	var locked *lockedError
	if !errors.As(err, &locked) || locked.pid <= 0 {
		return lock, err
	}
	if err := syscall.Kill(locked.pid, syscall.SIGTERM); err != nil {
		return nil, fmt.Errorf("ask the agent (pid %d) to end: %w", locked.pid, err)
	}
	for {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("the agent (pid %d) does not end: %w", locked.pid, ctx.Err())
		}
		if lock, err = lockRoot(root); !errors.As(err, &locked) {
			return lock, err
		}
	}
}
