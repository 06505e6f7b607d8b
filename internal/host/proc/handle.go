package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Handle holds one process by a pidfd: it never means a later process with the same pid, and
// it reports the end of the process at once, also if the process is no child.
type Handle struct {
	Info   Info
	table  Table
	fd     *os.File
	closed atomic.Bool // Close was called
	cmd    *exec.Cmd   // set for a child, which must be reaped
}

// ErrGone says that a process has ended.
var ErrGone = errors.New("process is gone")

// KillTimeout is how long a killed process may take to end: it may be in a slow system call.
const KillTimeout = 10 * time.Second

// Open returns a Handle of the process that info describes, or ErrGone if that process has ended.
func (t Table) Open(info Info) (*Handle, error) {
	fd, err := unix.PidfdOpen(info.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", info.PID, err)
	}
	h := &Handle{Info: info, table: t, fd: os.NewFile(uintptr(fd), "pidfd")}
	now, err := t.Read(info.PID)
	if err != nil || now.Start != info.Start || now.Zombie {
		h.Close()
		return nil, ErrGone
	}
	return h, nil
}

// Start starts a child and returns its Handle. Ended reaps it.
func (t Table) Start(cmd *exec.Cmd) (*Handle, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// A child keeps its pid until it is reaped, so no other process is read here.
	info, err := t.Read(cmd.Process.Pid)
	if err == nil {
		var h *Handle
		if h, err = t.Open(info); err == nil {
			h.cmd = cmd
			return h, nil
		}
	}
	_ = cmd.Process.Kill() // an error means that it has ended
	return nil, errors.Join(fmt.Errorf("hold on to process %d: %w", cmd.Process.Pid, err), cmd.Wait())
}

// PID is for messages. It is valid while the process runs.
func (h *Handle) PID() int { return h.Info.PID }

// Close closes the pidfd. The process goes on.
func (h *Handle) Close() {
	h.closed.Store(true)
	_ = h.fd.Close()
}

// Ended waits for the end of the process and returns how it ended, or the error of ctx if ctx
// ends first. The end of a process that is no child is ErrGone.
func (h *Handle) Ended(ctx context.Context) error {
	conn, err := h.fd.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", h.PID(), err)
	}
	if err := h.fd.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("watch process %d: %w", h.PID(), err)
	}
	// A pidfd is readable once its process has ended: the runtime's poller waits.
	stop := context.AfterFunc(ctx, func() { _ = h.fd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", h.PID(), err)
	}
	if h.cmd == nil {
		return ErrGone
	}
	if err := h.cmd.Wait(); err != nil {
		return err
	}
	return errors.New("exited by itself")
}

// Signal sends a signal. A process that has ended is no error. After Close, it is os.ErrClosed.
func (h *Handle) Signal(sig unix.Signal) error {
	var err error
	conn, cerr := h.fd.SyscallConn()
	if cerr != nil {
		return cerr
	}
	if cerr := conn.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); cerr != nil {
		if h.closed.Load() { // cerr does not say that
			return os.ErrClosed
		}
		return cerr
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Stop sends SIGTERM, and SIGKILL after grace, waits for the end of the process, and closes the
// Handle.
func (h *Handle) Stop(ctx context.Context, grace time.Duration) error {
	defer h.Close()
	for _, step := range []struct {
		sig  unix.Signal
		wait time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, KillTimeout}} {
		if step.wait == 0 {
			continue
		}
		if err := h.Signal(step.sig); err != nil {
			return fmt.Errorf("signal process %d: %w", h.PID(), err)
		}
		within, cancel := context.WithTimeout(ctx, step.wait)
		err := h.Ended(within)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("process %d does not end, not even by SIGKILL", h.PID())
}

// HoldsLock reports whether the process holds the flock(2) of a file, by the kernel's list of its
// open files: what is written in the file does not count.
func (h *Handle) HoldsLock(file *os.File) (bool, error) {
	is, err := file.Stat()
	if err != nil {
		return false, fmt.Errorf("look for the holder of a lock: %w", err)
	}
	dir := filepath.Join(h.table.Dir, strconv.Itoa(h.PID()))
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // it has ended
	}
	if err != nil {
		return false, fmt.Errorf("look for the holder of a lock: %w", err)
	}
	for _, fd := range fds {
		at, err := os.Stat(filepath.Join(dir, "fd", fd.Name()))
		if err != nil || !os.SameFile(is, at) {
			continue // closed meanwhile, or another file
		}
		state, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		if err == nil && strings.Contains(string(state), "FLOCK") {
			return true, nil
		}
	}
	return false, nil
}
