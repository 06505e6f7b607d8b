package node

import (
	"context"
	"log/slog"
	"time"
)

const (
	// statusInterval is how often the runtime is asked how it is while nothing hints at a change.
	statusInterval = 5 * time.Second
	// recheckDelay is how soon it is asked again after a hint: it may not have noticed yet what
	// we were told. Each pause after that is twice as long as the one before.
	recheckDelay = 100 * time.Millisecond
	// silentInterval is how often one is asked, at the least, that does not answer.
	silentInterval = time.Second
	// silenceTimeout is how long a runtime may give no answer.
	silenceTimeout = 10 * time.Second
)

// ReadinessMonitor lets a node be as ready as its container runtime is.
//
// A runtime that says that it or its network is not ready is believed at once. One that
// gives no answer may be restarting, which takes seconds and hurts no container: only
// when it is silent for longer is the node not ready. What it last said of its network
// stands until it says something else. One that answers this question may hang at others:
// then the node is not ready either, and says which; and so if the sync loop is stuck.
type ReadinessMonitor struct {
	// Status asks the runtime how it is. It fails if there is no answer.
	Status func(context.Context) (RuntimeStatus, error)
	// Unanswered are the calls that concern the whole node and have no answer yet.
	Unanswered func() []HungCall
	// Alive asks the sync loop whether it goes round. It fails if it does not before ctx ends.
	// Nil: there is none.
	Alive func(ctx context.Context) error
	// Recheck tell that another answer may be due.
	Recheck <-chan struct{}
	// Node is told. It is a Reporter.
	Node interface {
		SetRuntime(error)
		SetNetwork(error)
		SetSyncLoop(error)
	}
	Log *slog.Logger
}

// RuntimeStatus is what a runtime says of itself and of the network of pods: nil, or why they
// are not ready.
type RuntimeStatus struct{ Runtime, Network error }

// Run asks until ctx ends.
func (r ReadinessMonitor) Run(ctx context.Context) {
	var shown RuntimeStatus
	var stuck error // the sync loop is, and the node shows it
	loop := loopWatch{alive: r.Alive}
	var silent time.Time // since when there is no answer; zero: there is
	wait := statusInterval
	for {
		asked := time.Now()
		answer, err := r.readStatus(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			silent = time.Time{}
			if h := Hung(r.Unanswered(), time.Now(), HangTimeout); h != nil {
				answer.Runtime = h
			}
			shown = r.publish(shown, answer)
		case silent.IsZero():
			silent, wait = asked, recheckDelay
		}
		if err != nil {
			wait = min(wait, silentInterval)
			if time.Since(silent) >= silenceTimeout {
				if h := Hung(r.Unanswered(), time.Now(), silenceTimeout/2); h != nil {
					err = h // it names the call, and for how long
				}
				shown = r.publish(shown, RuntimeStatus{Runtime: err, Network: shown.Network})
			}
		}
		now := loop.check(ctx)
		r.logTransition("the sync loop", stuck, now)
		r.Node.SetSyncLoop(now)
		stuck = now
		select {
		case <-time.After(wait):
			wait = min(2*wait, statusInterval)
		case <-r.Recheck:
			wait = recheckDelay
		case <-ctx.Done():
			return
		}
	}
}

func (r ReadinessMonitor) readStatus(ctx context.Context) (RuntimeStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
	defer cancel()
	return r.Status(ctx)
}

// publish shows an answer, and logs what is news in it.
func (r ReadinessMonitor) publish(before, now RuntimeStatus) RuntimeStatus {
	r.logTransition("the container runtime", before.Runtime, now.Runtime)
	r.logTransition("the network of pods", before.Network, now.Network)
	r.Node.SetRuntime(now.Runtime)
	r.Node.SetNetwork(now.Network)
	return now
}

func (r ReadinessMonitor) logTransition(what string, before, now error) {
	switch {
	case before == nil && now != nil:
		r.Log.Warn(what+" is not ready", "err", now)
	case before != nil && now == nil:
		r.Log.Info(what + " is ready again")
	}
}
