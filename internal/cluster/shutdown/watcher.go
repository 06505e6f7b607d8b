package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
)

// Logind is the part of systemd's login manager that a Watcher calls.
type Logind interface {
	// Delay returns for how long logind lets a shutdown be delayed.
	Delay(ctx context.Context) (time.Duration, error)
	// Reload makes logind read its configuration again. It does not wait for that.
	Reload(ctx context.Context) error
	// Preparing reports whether the machine is about to shut down.
	Preparing(ctx context.Context) (bool, error)
	// Changed receives the answer of Preparing after each change. A value that was not received is
	// replaced by a newer one.
	Changed() <-chan bool
	// Inhibit delays shutdowns until the lock is closed.
	Inhibit(ctx context.Context, why string) (lock io.Closer, err error)
	// Lost is closed when the connection is lost.
	Lost() <-chan struct{}
	Close() error
}

// defaultDropIn is the drop-in file of berth in logind's configuration.
const defaultDropIn = "/etc/systemd/logind.conf.d/99-berth.conf"

// reconnectPause is the pause before the next connection to logind.
var reconnectPause = backoff.Exponential{First: time.Second, Max: 5 * time.Minute}

// WatcherConfig configures a Watcher.
type WatcherConfig struct {
	Manager *Manager // with periods
	Log     *slog.Logger
	// Connect connects to logind: ConnectLogind. It is retried: a machine without systemd has no
	// logind, and the agent may be started before logind.
	Connect func(ctx context.Context) (Logind, error)
	// DropIn is the file that is written if logind does not wait for long enough.
	// Empty: /etc/systemd/logind.conf.d/99-berth.conf.
	DropIn string
}

// Watcher watches logind for shutdowns of the machine, and delays them until the pods have stopped.
type Watcher struct {
	WatcherConfig
	short bool // it was logged that logind does not wait for long enough
}

// NewWatcher returns a watcher. It does nothing until Run.
func NewWatcher(c WatcherConfig) (*Watcher, error) {
	switch {
	case c.Manager == nil || c.Log == nil || c.Connect == nil:
		return nil, errors.New("shutdown: manager, log and connect are required")
	case len(c.Manager.Periods) == 0:
		return nil, errNoPeriods
	}
	if c.DropIn == "" {
		c.DropIn = defaultDropIn
	}
	return &Watcher{WatcherConfig: c}, nil
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	g := &guard{Watcher: w, stopped: make(chan int, 1), group: run.NewGroup(ctx, w.Log)}
	defer g.group.Stop()
	defer g.unlock()
	failures, streak := 0, logonce.Streak{}
	watched := false // there was a connection to logind
	for {
		err := g.watch(ctx, func() {
			if streak.Recovered() || !watched {
				w.Log.Info("shutdowns of this machine wait for its pods", "at most", total(w.Manager.Periods))
			}
			failures, watched = 0, true
		})
		if ctx.Err() != nil {
			return
		}
		if streak.Failed(time.Now()) {
			w.Log.Warn("systemd can't be watched for shutdowns: until it can be, the pods of this machine are not stopped gracefully when it goes down; 'berth drain' does so", "err", err)
		}
		failures++
		if err := g.pause(ctx, reconnectPause.After(failures)); err != nil {
			return
		}
	}
}

// guard holds the inhibitor lock of logind, which delays shutdowns. It outlives a connection to logind.
type guard struct {
	*Watcher
	group   *run.Group
	lock    io.Closer // the inhibitor lock; nil: shutdowns are not delayed
	round   int       // how many shutdowns have begun
	stopped chan int  // the round in which all pods have stopped, or their time was over
}

// watch handles the signals of one connection to logind until it is lost. It calls ready once shutdowns
// are delayed.
func (g *guard) watch(ctx context.Context, ready func()) error {
	logind, err := g.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to logind: %w", err)
	}
	defer func() { _ = logind.Close() }()
	if err := g.lengthen(ctx, logind); err != nil {
		return err
	}
	preparing, err := logind.Preparing(ctx)
	if err != nil {
		return err
	}
	if err := g.handle(ctx, logind, preparing); err != nil {
		return err
	}
	ready()
	for {
		select {
		case preparing := <-logind.Changed():
			if err := g.handle(ctx, logind, preparing); err != nil {
				return err
			}
		case round := <-g.stopped:
			g.letGo(round)
		case <-logind.Lost():
			return errors.New("the connection to logind is lost")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause waits before the next connection, and releases the lock meanwhile if all pods have stopped.
func (g *guard) pause(ctx context.Context, d time.Duration) error {
	over := time.After(d)
	for {
		select {
		case <-over:
			return nil
		case round := <-g.stopped:
			g.letGo(round)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handle begins to stop the pods if the machine is about to go down. Otherwise it ends a shutdown that
// was cancelled, and takes the inhibitor lock.
func (g *guard) handle(ctx context.Context, logind Logind, preparing bool) error {
	switch {
	case preparing && g.Manager.ShuttingDown():
		return nil // the pods are being stopped
	case preparing:
		g.Log.Warn("the machine is about to go down")
		g.Manager.goDown()
		g.round++
		round := g.round
		g.group.Go("stop pods", func(ctx context.Context) { g.stopPods(ctx, round) })
		return nil
	case g.Manager.ShuttingDown():
		g.Log.Warn("the machine does not go down after all")
		if err := g.Manager.Cancel(ctx); err != nil {
			return fmt.Errorf("open the node after a shutdown that was cancelled: %w", err)
		}
	}
	lock, err := logind.Inhibit(ctx, "the pods of this machine have to stop first")
	if err != nil {
		return fmt.Errorf("hold up shutdowns: %w", err)
	}
	g.unlock() // of an earlier connection
	g.lock = lock
	return nil
}

// letGo releases the lock, so that the machine shuts down, unless another shutdown has begun since.
func (g *guard) letGo(round int) {
	if round == g.round && g.Manager.ShuttingDown() {
		g.unlock()
	}
}

func (g *guard) stopPods(ctx context.Context, round int) {
	late, err := g.Manager.stopForShutdown(ctx)
	switch {
	case errors.Is(err, errCancelled) || ctx.Err() != nil:
		return
	case err != nil:
		g.Log.Error("pods were not stopped before the shutdown of the machine", "err", err)
	case len(late) > 0:
		g.Log.Warn("pods have not stopped in time; the machine goes down without them", "pods", late)
	}
	select {
	case g.stopped <- round:
	case <-ctx.Done():
	}
}

// unlock closes the inhibitor lock.
func (g *guard) unlock() {
	if g.lock == nil {
		return
	}
	if err := g.lock.Close(); err != nil {
		g.Log.Warn("the lock that holds up a shutdown could not be closed", "err", err)
	}
	g.lock = nil
}
