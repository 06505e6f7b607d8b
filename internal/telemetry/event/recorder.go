package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"berth/internal/lib/printable"
)

// queueLength is how many events may wait in the queue.
const queueLength = 1000

// Config configures a Recorder.
type Config struct {
	Node  string // the name of this node, the source.host of events
	Store *Store
	Log   *slog.Logger
	// Component is the source.component of events; empty: berth. In a cluster, people and
	// alerts look for kubelet.
	Component string
	// Sink receives the same events as the store: an event and, if it has happened before, the
	// patch that changes the event of that name into this one. It is called by one goroutine, and
	// must not block or write to the event. It may be nil.
	Sink func(e *v1.Event, patch []byte)
}

// Recorder records events. Its methods may be called by any goroutine at any time.
type Recorder struct {
	config     Config
	correlator *record.EventCorrelator
	queue      chan *v1.Event
	dropped    atomic.Uint64

	// Run alone uses these: whether events are being dropped, and the value of dropped when that
	// began.
	dropping bool
	before   uint64
}

// New returns a recorder, or an error that names what is missing in its config. Events wait in
// the queue until Run runs.
func New(c Config) (*Recorder, error) {
	if c.Node == "" || c.Store == nil || c.Log == nil {
		return nil, errors.New("event: Node, Store and Log are needed")
	}
	c.Component = cmp.Or(c.Component, defaultComponent)
	r := &Recorder{
		config: c,
		queue:  make(chan *v1.Event, queueLength),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			MessageFunc: func(e *v1.Event) string {
				return printable.Head(record.EventAggregatorByReasonMessageFunc(e), maxMessage)
			},
		}),
	}
	// Events from before a restart are counted on.
	for _, e := range c.Store.List("", "", "") {
		r.correlator.UpdateState(e)
	}
	return r, nil
}

// Record records an event of a pod. The kind is v1.EventTypeNormal or
// v1.EventTypeWarning. It never blocks, and keeps nothing of p but its names.
func (r *Recorder) Record(p *v1.Pod, kind, reason, message string) {
	r.RecordContainer(p, "", kind, reason, message)
}

// Recordf is Record with a format for the message.
func (r *Recorder) Recordf(p *v1.Pod, kind, reason, format string, args ...any) {
	r.RecordContainer(p, "", kind, reason, fmt.Sprintf(format, args...))
}

// RecordContainer records an event of one container of a pod.
func (r *Recorder) RecordContainer(p *v1.Pod, container, kind, reason, message string) {
	r.enqueue(refer(p, container), kind, reason, message)
}

// RecordContainerf is RecordContainer with a format for the message.
func (r *Recorder) RecordContainerf(p *v1.Pod, container, kind, reason, format string, args ...any) {
	r.RecordContainer(p, container, kind, reason, fmt.Sprintf(format, args...))
}

// RecordClaim records an event of a PersistentVolumeClaim. It never blocks.
func (r *Recorder) RecordClaim(c *v1.PersistentVolumeClaim, kind, reason, message string) {
	r.enqueue(v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion,
	}, kind, reason, message)
}

// RecordNode records an event of this node. It never blocks.
func (r *Recorder) RecordNode(kind, reason, message string) {
	r.enqueue(referNode(r.config.Node), kind, reason, message)
}

func (r *Recorder) enqueue(about v1.ObjectReference, kind, reason, message string) {
	select {
	case r.queue <- newEvent(r.config.Component, r.config.Node, about, kind, reason, message, time.Now()):
	default:
		r.dropped.Add(1)
	}
}

// Dropped returns how many events were lost because the queue was full.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

// Run handles the events of the queue until ctx ends, and then those that still wait in it.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case e := <-r.queue:
			r.ingest(e)
		case <-ctx.Done():
			for range len(r.queue) {
				r.ingest(<-r.queue)
			}
			return
		}
	}
}

// ingest correlates an event with earlier ones, and hands the result to the store and the sink.
func (r *Recorder) ingest(reported *v1.Event) {
	r.logDropped()
	result, err := r.correlator.EventCorrelate(reported)
	if err != nil {
		// The event is valid. Without a patch, a sink creates it as a new one.
		r.config.Log.Debug("an event has no patch", "event", reported.Name, "err", err)
	}
	if result == nil || result.Skip {
		return // over the rate limit of this pod or node
	}
	e := result.Event
	// The correlator leaves these out of events that combine several.
	e.ReportingController, e.ReportingInstance = r.config.Component, r.config.Node
	r.config.Store.Add(e)
	if r.config.Sink != nil {
		r.config.Sink(e, result.Patch)
	}
}

// logDropped logs when events begin to be dropped, and when that is over.
func (r *Recorder) logDropped() {
	dropped := r.dropped.Load()
	switch {
	case !r.dropping && dropped > r.before:
		r.dropping = true
		r.config.Log.Warn("events come faster than they can be taken in: some are dropped")
	case r.dropping && len(r.queue) == 0:
		r.config.Log.Info("events are no longer dropped", "dropped", dropped-r.before)
		r.dropping, r.before = false, dropped
	}
}
