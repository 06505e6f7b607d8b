package waterfall

import (
	"slices"
	"sync"
	"time"

	"berth/internal/lib/pod"
)

// Recorder records the waterfalls of all pods. Its methods never block.
type Recorder struct {
	limit int

	mu   sync.Mutex
	pods map[pod.UID]*Waterfall
	ages []pod.UID // the pods, the oldest first
}

// New returns a recorder that holds the waterfalls of the last limit pods.
func New(limit int) *Recorder {
	return &Recorder{limit: max(1, limit), pods: map[pod.UID]*Waterfall{}}
}

// Open begins the waterfall of a pod, and returns false if the pod has one. Phases of a pod without
// a waterfall are not recorded: the pod ran before the agent started.
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

// Begin records the beginning of a phase, unless the phase has begun already.
func (r *Recorder) Begin(uid pod.UID, phase, container string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.pods[uid]; w != nil {
		w.begin(phase, container, at)
	}
}

// End records the end of a phase, and returns how long the phase took, or false if it has not begun.
// The end of the phase Start begins the phase Ready.
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

// restart begins a phase of the pod, also if it has begun before.
func (w *Waterfall) restart(phase string, at time.Time) {
	if i := w.open(phase, ""); i >= 0 {
		w.Spans = slices.Delete(w.Spans, i, i+1)
	}
	w.begin(phase, "", at)
}

// Finish ends the waterfall of a pod that is ready, or has ended, and returns it. It returns false
// for a waterfall that was finished before.
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

// Get returns the waterfall of a pod. It returns false for a pod that ran before the agent started,
// or that is long gone.
func (r *Recorder) Get(uid pod.UID) (Waterfall, bool) {
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
