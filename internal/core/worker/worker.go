package worker

import (
	"context"
	"sync"
	"time"

	"berth/internal/lib/backoff"
	"berth/internal/lib/pod"
)

// worker is the goroutine of one pod.
type worker struct {
	pool *Pool
	uid  pod.UID
	wake chan struct{} // capacity 1: many requests while a step runs count as one

	mu        sync.Mutex
	life      life
	ended     chan struct{}      // closed when nothing of the pod runs; another one in a new life
	interrupt context.CancelFunc // of the step that runs; nil if none does
	stepLife  life               // the life that step was started for

	// The fields below belong to the goroutine.

	earlierRestarts map[string]int32 // see pod.Observed
	nextRestarts    map[string]int32 // the same, for the next life of this pod after a removal
	lastAction      time.Time        // an observation must be newer than this
	stopBegan       time.Time
	failures        int // in a row
	rounds          int // steps in a row that changed something
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

// closeEnded closes ended at the end of a life. The caller holds the lock.
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

// enqueue asks the goroutine for another step.
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

// snapshot returns a copy of the life for other packages.
func (w *worker) snapshot() Life {
	l := w.current()
	return Life{Pod: l.pod, Phase: l.phase, Removed: l.removed, Cause: l.cause}
}

// beginStep returns the newest life, and a context that apply cancels if that life is out of date.
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

// run performs a step whenever it is woken, until the pod is gone or ctx ends.
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

// step performs the step that the phase asks for, and applies or retries its result.
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
		w.enqueue() // the life changed: its step comes at once
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

// requeue asks for another step at once, since this one changed something. After maxRounds such
// steps in a row there is a pause: the runtime may accept a change and never carry it out.
func (w *worker) requeue() {
	if w.rounds++; w.rounds > maxRounds {
		w.pool.EnqueueAt(w.uid, time.Now().Add(retryBackoff.First))
		return
	}
	w.enqueue()
}

// retry asks for another attempt after a pause that grows. The first failure in a row is logged as
// a warning, the others for debugging.
func (w *worker) retry(l life, err error) {
	w.failures++
	pause := retryBackoff.After(w.failures)
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

// perform calls the Executor for a phase, and returns the event that the call leads to, if any.
func (w *worker) perform(ctx context.Context, l life) (pod.Outcome, event, error) {
	have, err := w.pool.Observer.Get(ctx, w.uid, w.lastAction)
	if err != nil {
		if w.failures == 1 && ctx.Err() == nil && w.pool.Unobserved != nil { // a runtime that restarts is silent for a moment
			w.pool.Unobserved(l.pod, err)
		}
		return pod.Outcome{}, nil, err
	}
	have.EarlierRestarts = w.earlierRestarts
	switch l.phase {
	case Syncing:
		w.stopBegan = time.Time{}
		outcome, err := w.pool.Executor.Sync(ctx, l.pod, have)
		if err != nil || outcome.Again {
			w.lastAction = time.Now() // the pod in the runtime may have changed
		}
		if err == nil && outcome.Finished {
			return outcome, finished{outcome.Message}, nil
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
		w.countRestarts(have)
		err = w.pool.Executor.Cleanup(ctx, l.pod, have)
		w.lastAction = time.Now()
		return pod.Outcome{}, erased{}, err
	}
}

// countRestarts counts a restart of each container that is about to be removed: if the pod was added again, its users have
// restarted it. A container that an attempt before removed is counted already.
func (w *worker) countRestarts(have pod.Observed) {
	if w.nextRestarts == nil {
		w.nextRestarts = map[string]int32{}
	}
	for _, c := range have.Containers { // the newest first
		if _, counted := w.nextRestarts[c.Name]; !counted {
			w.nextRestarts[c.Name] = c.RestartCount + 1
		}
	}
}

// timeLeft returns the rest of a grace period. It begins with the first attempt to stop the pod,
// and not anew after an attempt that failed or was interrupted.
func (w *worker) timeLeft(grace int64) time.Duration {
	if w.stopBegan.IsZero() {
		w.stopBegan = time.Now()
	}
	return max(0, time.Until(w.stopBegan.Add(time.Duration(grace)*time.Second)))
}

// retryBackoff is the time between two attempts of a step that fails.
var retryBackoff = backoff.Exponential{First: 500 * time.Millisecond, Max: 30 * time.Second}

// maxRounds is more than any pod needs to get from nothing to running.
const maxRounds = 20
