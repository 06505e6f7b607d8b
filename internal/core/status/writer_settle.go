package status

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
)

// A request that failed is repeated after a backoff between these, each shortened by up to a half
// at random. Even the longest lets a pod catch up soon after an outage.
const (
	initialBackoff = 250 * time.Millisecond
	maxBackoff     = 4 * time.Second
)

// settle records the result of a request, and calls done if it succeeded or was refused. It
// returns whether to go on with the pod's next request.
func (w *Writer) settle(ctx context.Context, uid pod.UID, e *podEntry, err error, done func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.pods[uid] != e, err != nil && ctx.Err() != nil:
		return false // forgotten meanwhile, or the end
	case err == nil:
		done()
	case isGone(err):
		e.state = e.state.on(gone{}) // the status and the deletion are about an object that is no longer there
	case isRefused(err):
		// It would be refused each time. The next status may be taken, and a pod that
		// is to be deleted is deleted all the same.
		w.faults.refused(uid, e.namespace+"/"+e.name, err)
		done()
		return true
	default:
		e.failures++
		e.state = e.state.on(failed{})
		w.faults.begin(uid, e.namespace+"/"+e.name, err)
		e.waiting = time.AfterFunc(backoff.Exponential{First: initialBackoff, Max: maxBackoff}.Jittered(e.failures), func() { w.retry(uid, e) })
		return false
	}
	e.failures = 0
	w.faults.end(uid)
	if e.state.phase == deleted && e.state.forgotten {
		w.drop(uid, e)
	}
	return !e.state.phase.isGone()
}

// retry puts a pod into the queue again after its pause.
func (w *Writer) retry(uid pod.UID, e *podEntry) {
	w.mu.Lock()
	waited := e.waiting != nil
	e.waiting = nil
	w.mu.Unlock()
	if waited {
		w.queue.Add(uid)
	}
}

// isGone reports whether the pod that a request is about is no longer there: nothing
// has its name, or another pod does. The server has several ways to say the latter.
//
// Only the answer of an API server counts. A load balancer without one behind it answers 404,
// too, in words of its own.
func isGone(err error) bool {
	if apierrors.IsNotFound(err) {
		return !apierrors.IsUnexpectedServerError(err)
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	switch {
	case apierrors.IsConflict(err):
		// Conflicts of other kinds pass. No name of a pod has a space in it.
		message := status.Status().Message
		return strings.Contains(message, " UID in ") || strings.Contains(message, "uid mismatch")
	case apierrors.IsInvalid(err) && status.Status().Details != nil:
		for _, cause := range status.Status().Details.Causes {
			if cause.Field == "metadata.uid" {
				return true
			}
		}
	}
	return false
}

// isRefused reports whether the API server would refuse the same request each time.
func isRefused(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// faults logs when statuses begin to fail to be written, and when that is over: once for each
// kind of failure, however many pods have it.
type faults struct {
	log *slog.Logger

	mu      sync.Mutex
	kindOf  map[pod.UID]string
	hit     map[string]int // pods by kind
	streaks map[string]*logonce.Streak
}

func newFaults(log *slog.Logger) *faults {
	return &faults{log: log, kindOf: map[pod.UID]string{}, hit: map[string]int{}, streaks: map[string]*logonce.Streak{}}
}

func (f *faults) begin(uid pod.UID, ref string, err error) {
	kind := string(apierrors.ReasonForError(err))
	if kind == "" {
		kind = "no answer"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kindOf[uid] != kind {
		f.leave(uid)
		f.kindOf[uid] = kind
		f.hit[kind]++
	}
	if f.streaks[kind] == nil { // there are few kinds
		f.streaks[kind] = &logonce.Streak{}
	}
	if f.streaks[kind].Failed(time.Now()) {
		f.log.Warn("statuses do not get to the API server", "kind", kind, "pod", ref, "uid", uid, "err", err)
	}
}

// refused logs a status that is not sent again. Each is logged, since no recovery is.
func (f *faults) refused(uid pod.UID, ref string, err error) {
	f.log.Warn("the API server refuses a status", "pod", ref, "uid", uid, "err", err)
}

func (f *faults) end(uid pod.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave(uid)
}

func (f *faults) leave(uid pod.UID) {
	kind, failing := f.kindOf[uid]
	if !failing {
		return
	}
	delete(f.kindOf, uid)
	if f.hit[kind]--; f.hit[kind] == 0 {
		delete(f.hit, kind)
		if f.streaks[kind].Recovered() {
			f.log.Info("statuses get to the API server again", "kind", kind)
		}
	}
}
