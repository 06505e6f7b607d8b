package bundle

import (
	"context"
	"time"

	"berth/internal/proc"
)

// process is a running containerd, as the supervisor sees it.
type process interface {
	// wait returns how the process ended, or the error of ctx if that is first.
	// It is called once, and lets go of the process.
	wait(ctx context.Context) error
}

// handle is a containerd or a shim that runs.
type handle struct{ *proc.Handle }

func (h *handle) pid() int { return h.PID() }

func (h *handle) close() { h.Close() }

func (h *handle) wait(ctx context.Context) error {
	defer h.close()
	return h.Ended(ctx)
}

// stop asks the process to end, and makes it end after grace. It lets go of it.
func (h *handle) stop(ctx context.Context, grace time.Duration) error { return h.Stop(ctx, grace) }
