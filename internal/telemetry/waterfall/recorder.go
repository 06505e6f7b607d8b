package waterfall

import (
	"slices"
	"sync"
	"time"

	"berth/internal/lib/pod"
)

// Recorder holds the waterfalls of all pods. None of it ever blocks.
type Recorder struct {
	limit int

	mu   sync.Mutex
	pods map[pod.UID]*Waterfall
	ages []pod.UID // in the order in which they came
}

// New returns a recorder that holds the waterfalls of the last limit pods.
func New(limit int) *Recorder {
	return &Recorder{limit: max(1, limit), pods: map[pod.UID]*Waterfall{}}
}

// Open says that a pod is to be started, and tells whether that is new. Phases of
// pods for which nobody said so are not noted: they were up before.
func (r *Recorder) Open(uid pod.UID, seen time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[uid] != nil {
		return false
	}
	if len(r.ages) >= r.limit {
		delete(r.pods, r.ages[0])
		r.ages = slices.Delete(r.ages, 0, 1)
	}
	r.pods[uid] = &Waterfall{Seen: seen}
	r.ages = append(r.ages, uid)
	return true
}

// Begin records the begin of a phase. A phase that lasts already goes on.
func (r *Recorder) Begin(uid pod.UID, phase, container string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.pods[uid]; w != nil {
		w.begin(phase, container, at)
	}
}

// End says that a phase is over, and tells how long it took if it is one of a
// start. A pod whose containers were started is waited for until it is ready.
func (r *Recorder) End(uid pod.UID, phase, container string, at time.Time) (took time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.pods[uid]
	if w == nil {
		return 0, false
	}
	took, ok = w.end(phase, container, at)
	if ok && phase == Start {
		w.restart(Ready, at)
	}
	return took, ok
}

// restart lets a phase of the pod begin now, even if it had begun before.
func (w *Waterfall) restart(phase string, at time.Time) {
	if i := w.open(phase, ""); i >= 0 {
		w.Spans = slices.Delete(w.Spans, i, i+1)
	}
	w.begin(phase, "", at)
}

// Finish says that a pod is ready, or has ended, and returns its waterfall if it
// was not finished before.
func (r *Recorder) Finish(uid pod.UID, at time.Time) (Waterfall, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.pods[uid]
	if w == nil || w.Done {
		return Waterfall{}, false
	}
	w.finish(at)
	return w.copy(), true
}

// Of returns the waterfall of a pod, or false if there is none: it was up before
// the agent was, or it is long gone.
func (r *Recorder) Of(uid pod.UID) (Waterfall, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.pods[uid]
	if w == nil {
		return Waterfall{}, false
	}
	return w.copy(), true
}

func (w *Waterfall) copy() Waterfall {
	out := *w
	out.Spans = slices.Clone(w.Spans)
	return out
}

// Forget drops the waterfall of a pod that is gone.
func (r *Recorder) Forget(uid pod.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[uid] == nil {
		return
	}
	delete(r.pods, uid)
	r.ages = slices.DeleteFunc(r.ages, func(other pod.UID) bool { return other == uid })
}
