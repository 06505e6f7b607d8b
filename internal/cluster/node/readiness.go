package node

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/lib/backoff"
)

const (
	// statusInterval is the time between two Status calls while nothing hints at a change.
	statusInterval = 5 * time.Second
	// silentInterval is the longest time between two Status calls to a runtime that does not answer.
	silentInterval = time.Second
	// silenceTimeout is how long a runtime may give no answer before the node is not ready.
	silenceTimeout = 10 * time.Second
)

// recheckPause is the time between two Status calls after a hint at a change, which the runtime may
// not have noticed yet. It grows back to statusInterval.
var recheckPause = backoff.Exponential{First: 100 * time.Millisecond, Max: statusInterval}

// ReadinessMonitor sets the readiness of a node by that of its container runtime.
//
// A runtime that reports that it or its network is not ready makes the node not ready at once. A
// runtime that gives no answer may be restarting, which takes seconds and hurts no container: the
// node is not ready only if it is silent for longer. The last known state of its network stays
// until the runtime reports another. A runtime that answers Status may hang at other calls: then
// the node is not ready either, and the condition names the call. Nor is it while the sync loop is
// stuck.
type ReadinessMonitor struct {
	// Status calls the runtime's Status. It fails if there is no answer.
	Status func(context.Context) (RuntimeStatus, error)
	// Unanswered are the calls that concern the whole node and have no answer yet.
	Unanswered func() []HungCall
	// Alive waits for an answer of the sync loop. It fails if there is none before ctx ends. Nil:
	// there is no sync loop.
	Alive func(ctx context.Context) error
	// Recheck hints that the status of the runtime may have changed.
	Recheck <-chan struct{}
	// Node receives the results. It is a Reporter.
	Node interface {
		SetRuntime(error)
		SetNetwork(error)
		SetSyncLoop(error)
	}
	Log *slog.Logger
}

// RuntimeStatus says whether the runtime and the network of pods are ready: nil, or why not.
type RuntimeStatus struct{ Runtime, Network error }

// Run monitors the runtime and the sync loop until ctx ends.
func (r ReadinessMonitor) Run(ctx context.Context) {
	var shown RuntimeStatus
	var stuck error // why the sync loop is not alive, as the Node shows it
	loop := loopWatch{alive: r.Alive}
	var silent time.Time // since when the runtime does not answer; zero: it answers
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
			silent, wait = asked, recheckPause.First
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
			wait = recheckPause.Next(wait)
		case <-r.Recheck:
			wait = recheckPause.First
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

// publish hands the status of the runtime to the Reporter, and logs the differences from before.
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
