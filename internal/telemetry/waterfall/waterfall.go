// Package waterfall keeps, for each pod, when the phases of its start began and
// ended: how long it waited, and for what.
//
//	volumes ▆▆
//	pull      ▆▆▆▆▆▆      (of each container)
//	queue     ▆▆▆         (for a start slot)
//	sandbox      ▆▆▆
//	create          ▆     (of each container)
//	start            ▆▆   (of each container)
//	ready              ▆▆▆▆
//
// It is the first start that counts: once a pod is ready, or has ended, its
// waterfall stands still. Only the Recorder writes; readers get copies. What it
// holds is bounded, and nothing of it outlives the agent.
package waterfall

import (
	"slices"
	"time"
)

// The phases of a start. They may overlap.
const (
	Queue   = "queue"   // for a start slot
	Volumes = "volumes" // are set up
	Pull    = "pull"    // an image is looked for, and fetched if it is not there
	Sandbox = "sandbox" // is made, its network included
	Create  = "create"  // a container, with what its spec refers to
	Start   = "start"   // a container
	Ready   = "ready"   // from the last start until the pod is ready
)

// maxSpans is more than the start of any sane pod has.
const maxSpans = 256

// Span is one phase. A phase that is begun again before it has ended is the same span.
type Span struct {
	Phase     string
	Container string // "" for what is of the pod as a whole
	Start     time.Time
	End       time.Time // zero while it lasts
}

// Waterfall is the start of one pod.
type Waterfall struct {
	Seen  time.Time // when the agent first saw the pod
	Spans []Span    // in the order in which they began
	Done  bool      // the pod is ready, or has ended: nothing is added any more
}

// begin records the begin of a phase. A phase that lasts already goes on.
func (w *Waterfall) begin(phase, container string, at time.Time) {
	if w.Done || len(w.Spans) >= maxSpans || w.open(phase, container) >= 0 {
		return
	}
	w.Spans = append(w.Spans, Span{Phase: phase, Container: container, Start: at})
}

// end records the end of a phase, and returns how long it took.
func (w *Waterfall) end(phase, container string, at time.Time) (took time.Duration, ok bool) {
	i := w.open(phase, container)
	if w.Done || i < 0 {
		return 0, false
	}
	w.Spans[i].End = at
	return at.Sub(w.Spans[i].Start), true
}

func (w *Waterfall) open(phase, container string) int {
	return slices.IndexFunc(w.Spans, func(s Span) bool {
		return s.Phase == phase && s.Container == container && s.End.IsZero()
	})
}

// finish ends the phases that still last: no further event of them comes.
func (w *Waterfall) finish(at time.Time) {
	for i := range w.Spans {
		if w.Spans[i].End.IsZero() {
			w.Spans[i].End = at
		}
	}
	w.Done = true
}
