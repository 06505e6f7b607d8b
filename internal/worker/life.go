package worker

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// Phase is how far a pod has come in its life on this node. It only moves on:
//
//	             stop, finished                stopped                removed, erased
//	Syncing ────────────────────▶ Terminating ─────────▶ Terminated ────────────────▶ Gone
//	kept as its spec says         being stopped          nothing runs; its            nothing
//	                                                     last words can be read       is left
type Phase int

const (
	Syncing Phase = iota
	Terminating
	Terminated
	Gone
)

func (p Phase) String() string {
	return [...]string{"Syncing", "Terminating", "Terminated", "Gone"}[p]
}

// life is the state of one pod's worker. It is a value: on returns the next one.
type life struct {
	phase Phase
	pod   *v1.Pod // the newest version

	// grace is how many seconds the pod has to stop. It counts from Terminating
	// on, and only ever shrinks.
	grace int64
	// why the pod was stopped: the first reason stays.
	why string
	// removed says that no source has the pod any more. It never turns back; a
	// pod that is added again meanwhile waits in again.
	removed bool
	again   *v1.Pod
}

// event is something that happens to a pod. Requests come from the agent,
// results from the worker itself.
type event interface{ isEvent() }

type (
	// desire says that a source has this version of the pod.
	desire struct{ pod *v1.Pod }
	// stop asks for the end of a pod that its source still has. A nil grace
	// means the pod's own.
	stop struct {
		grace *int64
		why   string
	}
	// remove says that the source no longer has the pod.
	remove struct{}
	// finished says that all of its containers ended for good.
	finished struct{ why string }
	// stopped says that nothing of the pod runs.
	stopped struct{}
	// erased says that nothing of the pod is left.
	erased struct{}
)

func (desire) isEvent()   {}
func (stop) isEvent()     {}
func (remove) isEvent()   {}
func (finished) isEvent() {}
func (stopped) isEvent()  {}
func (erased) isEvent()   {}

// born returns the life of a pod that a source brought.
func born(p *v1.Pod) life { return life{}.on(desire{p}) }

// on returns the life after an event. Events that come too late change nothing.
func (l life) on(e event) life {
	switch e := e.(type) {
	case desire:
		if l.removed {
			l.again = e.pod
			return l
		}
		l.pod = e.pod
		switch {
		case e.pod.DeletionTimestamp != nil:
			return l.end(pod.Grace(e.pod), "it was deleted")
		case pod.HasEnded(e.pod):
			return l.end(pod.Grace(e.pod), "it ended before")
		}
	case stop:
		grace := pod.Grace(l.pod)
		if e.grace != nil {
			grace = *e.grace
		}
		return l.end(grace, e.why)
	case remove:
		l.removed = true
		l.again = nil // it was added again, and removed again
		return l.end(pod.Grace(l.pod), "its source no longer has it")
	case finished:
		return l.end(pod.Grace(l.pod), e.why)
	case stopped:
		if l.phase == Terminating {
			l.phase = Terminated
		}
	case erased:
		if l.phase == Terminated && l.removed {
			l.phase = Gone
		}
	}
	return l
}

// end moves a pod that still runs to Terminating, and shortens the time of one
// that is already there.
func (l life) end(grace int64, why string) life {
	switch l.phase {
	case Syncing:
		l.phase, l.grace, l.why = Terminating, grace, why
	case Terminating:
		l.grace = min(l.grace, grace)
	}
	return l
}

// work tells whether there is something to do in this state even if nothing
// was observed.
func (l life) work() bool {
	return l.phase == Syncing || l.phase == Terminating || (l.phase == Terminated && (l.removed || l.deleted()))
}

// deleted tells whether the source has the pod and wants it gone.
func (l life) deleted() bool { return l.pod.DeletionTimestamp != nil }

// interrupts tells whether what is being done for before is out of date in l:
// the pod is to be stopped, or sooner than it was.
func (l life) interrupts(before life) bool {
	return l.phase != before.phase || l.grace < before.grace
}
