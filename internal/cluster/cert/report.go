package cert

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"berth/internal/lib/logonce"
)

const (
	// approvalHintDelay is how long an approval may take before a hint is logged.
	approvalHintDelay = 5 * time.Second
	// reminderInterval is the shortest time between two hints. A request that is not approved in
	// time is followed by another one, with another name.
	reminderInterval = 10 * time.Minute
)

// report logs the requests for one certificate: each kind of failure once in a row, new certificates,
// and requests that wait for approval.
//
// It is also the log handler of client-go's certificate manager: errors are failures, and all other
// records are dropped.
type report struct {
	what string // names the certificate in log lines
	log  *slog.Logger
	// onFailure is called for each failure. May be nil.
	onFailure func()

	mu       sync.Mutex
	streak   logonce.Streak
	reminded time.Time
	hint     *time.Timer // runs while a request waits
	closed   bool
}

// failed records a failure.
func (r *report) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return // the context has ended
	}
	r.stopHint()
	if r.onFailure != nil {
		r.onFailure()
	}
	if r.streak.FailedAs(kindOf(err), time.Now()) {
		r.log.Warn("no new "+r.what+" yet; trying again", "err", err)
	}
}

// kindOf returns the part of an error that stays the same when the failure happens again: all
// words but names, ports and times, which have digits.
func kindOf(err error) string {
	words := slices.DeleteFunc(strings.Fields(err.Error()), func(w string) bool { return strings.ContainsAny(w, "0123456789") })
	return strings.Join(words, " ")
}

// got logs a new certificate, and stops the hints.
func (r *report) got(leaf *x509.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopHint()
	r.streak.Recovered() // every new certificate is logged
	r.reminded = time.Time{}
	r.log.Info("there is a new "+r.what, "until", leaf.NotAfter)
}

// requested starts the timer of the hint: if the approval of a request takes long, the log says how
// to approve it.
func (r *report) requested(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopHint()
	if r.closed || !r.reminded.IsZero() && time.Since(r.reminded) < reminderInterval {
		return
	}
	r.hint = time.AfterFunc(approvalHintDelay, func() { r.remind(name) })
}

func (r *report) remind(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hint == nil {
		return // the timer was stopped at this moment
	}
	r.hint, r.reminded = nil, time.Now()
	r.log.Info("the request for a "+r.what+" waits for approval", "request", name, "try", "kubectl certificate approve "+name)
}

// close stops the timer of the hint. Nothing is logged after it.
func (r *report) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.stopHint()
}

func (r *report) stopHint() {
	if r.hint != nil {
		r.hint.Stop()
		r.hint = nil
	}
}

// Enabled, Handle, WithAttrs and WithGroup implement slog.Handler, for the logs of client-go.

func (r *report) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle records an error that a library logs as a failure.
func (r *report) Handle(_ context.Context, record slog.Record) error {
	failure := errors.New(record.Message)
	record.Attrs(func(a slog.Attr) bool {
		err, isError := a.Value.Any().(error)
		if isError {
			failure = err
		}
		return !isError
	})
	if !wait.Interrupted(failure) { // a timeout: its cause was logged before
		r.failed(failure)
	}
	return nil
}

func (r *report) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *report) WithGroup(string) slog.Handler { return r }
