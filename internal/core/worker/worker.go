package worker

import (
	"context"
	"sync"
	"time"

	"berth/internal/lib/backoff"
	"berth/internal/lib/pod"
)

// worker is the goroutine of one pod. Its life changes under mu; everything
// below the line belongs to the goroutine alone.
type worker struct {
	pool *Pool
	uid  pod.UID
	wake chan struct{} // capacity 1: "there is something to do"

	mu        sync.Mutex
	life      life
	ended     chan struct{}      // closed when nothing of the pod runs; another one in a new life
	interrupt context.CancelFunc // of the step that runs; nil if none does
	stepLife  life               // what that step was started for

	// ---

	lastAction time.Time // nothing observed before this may be acted on
	stopBegan  time.Time
	failures   int // in a row
	rounds     int // in which something was done, in a row
}

// apply applies an event and wakes the goroutine.
func (w *worker) apply(e event) {
	w.mu.Lock()
	before := w.life
	w.life = before.on(e)
	w.closeEnded(before.phase, w.life.phase)
	if w.interrupt != nil && w.life.interrupts(w.stepLife) {
		w.interrupt()
	}
	w.mu.Unlock()
	w.enqueue()
}

// closeEnded lets go of those who wait for the end of a life. The caller holds the lock.
func (w *worker) closeEnded(before, after Phase) {
	if before < Terminated && (after >= Terminated || after < before) {
		close(w.ended)
	}
	if after < before { // a new life
		w.ended = make(chan struct{})
	}
}

func (w *worker) whenEnded() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// enqueue wakes the goroutine: something about its pod may have changed. Many
// calls while it is busy count as one.
func (w *worker) enqueue() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) current() life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life
}

// snapshot is what others may know.
func (w *worker) snapshot() Life {
	l := w.current()
	return Life{Pod: l.pod, Phase: l.phase, Removed: l.removed, Cause: l.cause}
}

// beginStep takes the newest state and makes its step interruptible.
func (w *worker) beginStep(ctx context.Context) (life, context.Context, context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	w.interrupt, w.stepLife = cancel, w.life
	return w.life, ctx, func() {
		cancel()
		w.mu.Lock()
		w.interrupt = nil
		w.mu.Unlock()
	}
}

// run does what there is to do, until the pod is gone or ctx ends.
func (w *worker) run(ctx context.Context) {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		w.step(ctx)
		if w.current().phase == Gone || ctx.Err() != nil {
			return
		}
	}
}

// step does one thing for the pod: the one that its phase asks for.
func (w *worker) step(ctx context.Context) {
	l, stepCtx, done := w.beginStep(ctx)
	if !l.hasWork() {
		done()
		return
	}
	turnCtx, end := w.pool.SyncStarted(stepCtx, l.pod, l.phase)
	outcome, result, err := w.perform(turnCtx, l)
	end(err)
	interrupted := stepCtx.Err() != nil
	done()

	switch {
	case ctx.Err() != nil:
		return
	case err != nil && interrupted:
		w.enqueue() // there is something newer to do: at once
		return
	case err != nil:
		w.retry(l, err)
	default:
		w.succeeded(l)
		if result != nil {
			w.apply(result)
		}
		overdue := !outcome.Due.IsZero() && !outcome.Due.After(time.Now())
		if outcome.Again || overdue {
			w.requeue()
		} else {
			w.rounds = 0
		}
	}
	if outcome.Due.After(time.Now()) {
		w.pool.EnqueueAt(w.uid, outcome.Due)
	}
}

// requeue looks once more at once: something was done. A pod for which there is
// always something to do, because the runtime never does it, has to wait.
func (w *worker) requeue() {
	if w.rounds++; w.rounds > maxRounds {
		w.pool.EnqueueAt(w.uid, time.Now().Add(retryPause.First))
		return
	}
	w.enqueue()
}

// retry asks for another attempt after a pause that grows. It is said once that
// a step fails; how it goes on is for developers.
func (w *worker) retry(l life, err error) {
	w.failures++
	pause := retryPause.After(w.failures)
	log := w.pool.Log.Debug
	if w.failures == 1 {
		log = w.pool.Log.Warn
	}
	log("pod step failed; trying again", "pod", pod.Ref(l.pod), "uid", w.uid, "phase", l.phase, "attempt", w.failures, "in", pause, "err", err)
	w.pool.EnqueueAt(w.uid, time.Now().Add(pause))
}

func (w *worker) succeeded(l life) {
	if w.failures > 1 {
		w.pool.Log.Info("pod step works again", "pod", pod.Ref(l.pod), "uid", w.uid, "phase", l.phase, "attempts", w.failures+1)
	}
	w.failures = 0
}

// perform performs the step of a phase and returns the event that ends it, if any.
func (w *worker) perform(ctx context.Context, l life) (pod.Outcome, event, error) {
	have, err := w.pool.Observer.Get(ctx, w.uid, w.lastAction)
	if err != nil {
		return pod.Outcome{}, nil, err
	}
	switch l.phase {
	case Syncing:
		w.stopBegan = time.Time{}
		outcome, err := w.pool.Executor.Sync(ctx, l.pod, have)
		if err != nil || outcome.Again {
			w.lastAction = time.Now() // the runtime changed, or may have: read it anew
		}
		if err == nil && outcome.Finished {
			return outcome, finished{outcome.Why}, nil
		}
		return outcome, nil, err
	case Terminating:
		done, err := w.pool.Executor.Stop(ctx, l.pod, have, w.timeLeft(l.grace), l.cause)
		w.lastAction = time.Now()
		if err != nil || !done {
			return pod.Outcome{Again: true}, nil, err
		}
		return pod.Outcome{}, stopped{}, nil
	default:
		if !l.removed { // deleted after it had ended
			return pod.Outcome{}, nil, w.pool.Executor.Release(ctx, l.pod, have)
		}
		err = w.pool.Executor.Cleanup(ctx, l.pod, have)
		w.lastAction = time.Now()
		return pod.Outcome{}, erased{}, err
	}
}

// timeLeft is what is left of a grace period that began with the first attempt
// to stop the pod. A failed or interrupted attempt does not begin it anew.
func (w *worker) timeLeft(grace int64) time.Duration {
	if w.stopBegan.IsZero() {
		w.stopBegan = time.Now()
	}
	return max(0, time.Until(w.stopBegan.Add(time.Duration(grace)*time.Second)))
}

// retryPause is the time between two attempts of a step that fails.
var retryPause = backoff.Exponential{First: 500 * time.Millisecond, Max: 30 * time.Second}

// maxRounds is more than any pod needs to get from nothing to running.
const maxRounds = 20
