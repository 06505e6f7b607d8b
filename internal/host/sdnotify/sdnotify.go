// Package sdnotify reports the state of the agent to systemd: ready, alive (for a unit with
// WatchdogSec), and stopping. Outside of a unit with Type=notify it does nothing.
package sdnotify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"berth/internal/lib/logonce"
)

// Notifier sends the state of the agent to systemd.
type Notifier struct {
	// Alive returns an error if the agent does no work any more. systemd kills the process if that
	// lasts for WatchdogSec.
	Alive func(context.Context) error
	Log   *slog.Logger
}

// Run reports that the agent is ready, then that it is alive, twice in each watchdog period, and at
// the end of ctx that it is stopping.
func (n *Notifier) Run(ctx context.Context) {
	if sent, err := daemon.SdNotify(false, daemon.SdNotifyReady); !sent {
		if err != nil {
			n.Log.Warn("systemd can't be notified that berth is ready", "err", err)
		}
		return
	}
	defer func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }() // systemd sees the process end, too
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.Log.Warn("there will be no signs of life for systemd", "err", err)
	}
	if limit <= 0 || err != nil {
		<-ctx.Done()
		return
	}
	n.keepAlive(ctx, limit)
}

// keepAlive sends a keep-alive twice in each period of limit while the agent is alive.
func (n *Notifier) keepAlive(ctx context.Context, limit time.Duration) {
	var failures logonce.Streak
	ticker := time.NewTicker(limit / 2)
	defer ticker.Stop()
	for {
		switch err := n.check(ctx, limit/2); {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failures.Recovered() {
				n.Log.Info("berth is alive again: systemd knows")
			}
		case failures.Failed(time.Now()):
			n.Log.Error("systemd gets no sign of life, and will start berth again if this lasts", "limit", limit, "err", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// check sends a keep-alive if the agent is alive.
func (n *Notifier) check(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := n.Alive(ctx); err != nil {
		return err
	}
	sent, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog)
	if err == nil && !sent {
		err = errors.New("NOTIFY_SOCKET is not set any more")
	}
	return err
}
