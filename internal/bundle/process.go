package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running containerd, as the supervisor sees it.
type process interface {
	// wait returns how the process ended, or the error of ctx if that is first.
	// It is called once, and lets go of the process.
	wait(ctx context.Context) error
}

// handle holds on to one process through a pidfd: no other process can slip in
// under the same pid, and its end is heard of at once, whoever its parent is.
type handle struct {
	info procInfo
	fd   *os.File
	cmd  *exec.Cmd // set for a child, which must be reaped
}

var errProcessGone = errors.New("process is gone")

// open takes hold of the process that info describes, if it still is that one.
func (t procTable) open(info procInfo) (*handle, error) {
	fd, err := unix.PidfdOpen(info.pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, errProcessGone
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", info.pid, err)
	}
	h := &handle{info: info, fd: os.NewFile(uintptr(fd), "pidfd")}
	now, err := t.read(info.pid)
	if err != nil || now.start != info.start || now.zombie {
		h.close()
		return nil, errProcessGone
	}
	return h, nil
}

func (h *handle) pid() int { return h.info.pid }

func (h *handle) close() { _ = h.fd.Close() }

func (h *handle) wait(ctx context.Context) error {
	defer h.close()
	return h.ended(ctx)
}

// ended returns once the process is gone, or ctx ends.
func (h *handle) ended(ctx context.Context) error {
	conn, err := h.fd.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", h.pid(), err)
	}
	if err := h.fd.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("watch process %d: %w", h.pid(), err)
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
		return fmt.Errorf("watch process %d: %w", h.pid(), err)
	}
	if h.cmd == nil {
		return errProcessGone
	}
	if err := h.cmd.Wait(); err != nil {
		return err
	}
	return errors.New("exited by itself")
}

func (h *handle) signal(sig unix.Signal) error {
	var err error
	conn, cerr := h.fd.SyscallConn()
	if cerr != nil {
		return cerr
	}
	if cerr := conn.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); cerr != nil {
		return cerr
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// stop asks the process to end, and makes it end after grace. It lets go of it.
func (h *handle) stop(ctx context.Context, grace time.Duration) error {
	defer h.close()
	for _, step := range []struct {
		sig  unix.Signal
		wait time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, killWait}} {
		if step.wait == 0 {
			continue
		}
		if err := h.signal(step.sig); err != nil {
			return fmt.Errorf("signal process %d: %w", h.pid(), err)
		}
		within, cancel := context.WithTimeout(ctx, step.wait)
		err := h.ended(within)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("process %d does not end, not even by SIGKILL", h.pid())
}

// killWait is how long a killed process may take to go: it may be inside of a slow
// system call.
const killWait = 10 * time.Second
