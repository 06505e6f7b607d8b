package bundle

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/host/proc"
)

// process is a running containerd, as the supervisor sees it.
type process interface {
	// wait returns how the process ended, or the error of ctx if that ends first.
	// It is called once, and closes the process.
	wait(ctx context.Context) error
	// kill sends SIGKILL to the process. It may be called while wait waits.
	kill() error
	pid() int
}

// handle is a containerd or a shim that runs.
type handle struct{ *proc.Handle }

func (h *handle) pid() int { return h.PID() }

func (h *handle) kill() error {
	err := h.Signal(unix.SIGKILL)
	if errors.Is(err, os.ErrClosed) { // wait closed it: the process has ended
		return nil
	}
	return err
}

func (h *handle) close() { h.Close() }

func (h *handle) wait(ctx context.Context) error {
	defer h.close()
	return h.Ended(ctx)
}

// stop asks the process to end, kills it after grace, and closes it.
func (h *handle) stop(ctx context.Context, grace time.Duration) error { return h.Stop(ctx, grace) }
