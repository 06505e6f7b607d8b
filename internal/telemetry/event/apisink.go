package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
)

const (
	// waitingLimit is how many events may wait for the API server.
	waitingLimit = 1000
	// waitingTTL is how long an event waits. API servers keep events for as long.
	waitingTTL = time.Hour
	// sendTimeout bounds one request.
	sendTimeout = 10 * time.Second
	// finishTimeout bounds the delivery of waiting events at the end of Run.
	finishTimeout = 2 * time.Second
	// retryJitter is the part of a pause by which it is lengthened at most.
	retryJitter = 0.5
)

// retryPause is the pause after a request that failed. Max is short, so that an API server that is
// back receives the waiting events soon.
var retryPause = backoff.Exponential{First: 500 * time.Millisecond, Max: 3 * time.Second}

// SinkConfig configures an APISink.
type SinkConfig struct {
	Client corev1.EventsGetter // clientset.CoreV1()
	Log    *slog.Logger
}

// APISink writes events to an API server. Each event waits here, in its newest version, until the
// server has accepted or refused it.
type APISink struct {
	SinkConfig
	wake chan struct{} // capacity 1: there is something to send

	mu      sync.Mutex
	waiting map[types.NamespacedName]delivery
	order   []types.NamespacedName // of waiting: each once, the oldest first
	dropped int                    // since events began to be dropped

	forbidden bool // events are forbidden, and that was logged; used by Run alone
}

// delivery is an event that waits to be sent.
type delivery struct {
	event *v1.Event
	patch []byte    // changes the event of that name into this one; nil: the event is new
	since time.Time // when it was queued
}

// NewAPISink returns a sink, or an error that names what is missing in its config. Events wait
// until Run runs.
func NewAPISink(c SinkConfig) (*APISink, error) {
	if c.Client == nil || c.Log == nil {
		return nil, errors.New("event: an API sink needs Client and Log")
	}
	return &APISink{SinkConfig: c, wake: make(chan struct{}, 1), waiting: map[types.NamespacedName]delivery{}}, nil
}

// Send queues an event: see Config.Sink. It never blocks; if too many wait, the
// oldest is dropped.
func (s *APISink) Send(e *v1.Event, patch []byte) {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue(name, delivery{event: e, patch: patch, since: time.Now()})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// enqueue queues an event, in the place of an older one of its name. The caller holds the lock.
func (s *APISink) enqueue(name types.NamespacedName, d delivery) {
	if _, waits := s.waiting[name]; !waits {
		s.order = append(s.order, name)
	}
	s.waiting[name] = d
	if len(s.order) <= waitingLimit {
		return
	}
	delete(s.waiting, s.order[0])
	s.order = s.order[1:]
	if s.dropped++; s.dropped == 1 {
		s.Log.Warn("events wait for the API server, and are too many: the oldest are dropped")
	}
}

// next takes out the oldest event that is still worth sending.
func (s *APISink) next() (delivery, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		name := s.order[0]
		d := s.waiting[name]
		delete(s.waiting, name)
		s.order = s.order[1:]
		if time.Since(d.since) < waitingTTL {
			return d, true
		}
	}
	s.order = nil // which frees the array
	if s.dropped > 0 {
		s.Log.Info("events are no longer dropped", "dropped", s.dropped)
		s.dropped = 0
	}
	return delivery{}, false
}

// putBack queues an event again, behind the others: an event that the server fails on must not hold
// them up. A newer event of the same name that came meanwhile stays.
func (s *APISink) putBack(d delivery) {
	name := types.NamespacedName{Namespace: d.event.Namespace, Name: d.event.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := s.waiting[name]; !waits {
		s.enqueue(name, d)
	}
}

// Run sends events until ctx ends, and then, for finishTimeout at most, the events that still wait.
func (s *APISink) Run(ctx context.Context) {
	failures, streak := 0, logonce.Streak{}
	for ctx.Err() == nil {
		d, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := s.deliver(ctx, d)
		switch {
		case err == nil:
			if streak.Recovered() {
				s.Log.Info("events get to the API server again", "failures", failures)
			}
			failures = 0
		case ctx.Err() != nil:
			s.putBack(d)
		default:
			failures++
			if streak.Failed(time.Now()) {
				s.Log.Warn("events do not get to the API server; trying again", "err", err)
			}
			s.putBack(d)
			_ = run.Sleep(ctx, retryPause.Lengthened(failures, retryJitter))
		}
	}
	s.finish(ctx, failures)
}

// finish sends the waiting events, unless the server does not answer.
func (s *APISink) finish(ctx context.Context, failures int) {
	if failures > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	for {
		d, ok := s.next()
		if !ok {
			return
		}
		if err := s.deliver(ctx, d); err != nil {
			s.Log.Debug("the last events did not get to the API server", "err", err)
			return
		}
	}
}

// deliver writes an event to the server. An error asks for a retry; an event that the server
// refuses for good is dropped.
func (s *APISink) deliver(ctx context.Context, d delivery) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := s.write(ctx, d)
	switch {
	case err == nil:
		s.forbidden = false
		return nil
	case !isFinal(err):
		return fmt.Errorf("write event %s/%s: %w", d.event.Namespace, d.event.Name, err)
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) && !s.forbidden:
		s.forbidden = true
		s.Log.Warn("the API server forbids events of this node: give its user leave to create and patch events", "err", err)
	default:
		s.Log.Debug("the API server refuses an event", "event", d.event.Name, "reason", d.event.Reason, "err", err)
	}
	return nil
}

func (s *APISink) write(ctx context.Context, d delivery) error {
	events := s.Client.Events(d.event.Namespace)
	if d.patch != nil {
		_, err := events.Patch(ctx, d.event.Name, types.StrategicMergePatchType, d.patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		// The server does not have the event that the patch is for: it expired, or was never
		// delivered.
	}
	e := *d.event
	e.ResourceVersion = ""
	_, err := events.Create(ctx, &e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the answer to an earlier attempt was lost
	}
	return err
}

// isFinal reports whether the server would refuse the same event again.
func isFinal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) ||
		apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsMethodNotSupported(err)
}
