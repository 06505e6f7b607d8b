package worker

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Phase is how far a pod has come in its life on this node. It only moves on:
//
//	             stop, finished                stopped                removed, erased
//	Syncing ────────────────────▶ Terminating ─────────▶ Terminated ────────────────▶ Gone
//	kept as its spec says         being stopped          nothing runs; its            nothing
//	                                                     status can be read           is left
//
// There is one way back: a pod that a passing cause ended may be revived, and begins a new life
// once it is stopped.
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
	// cause is why the pod was stopped: the first one stays.
	cause pod.Cause
	// removed says that no source has the pod any more. It stays true: a pod that is added again
	// waits in next until this one is gone.
	removed bool
	next    *v1.Pod
	// revive says that a new life follows as soon as this one is stopped.
	revive bool
}

// event is something that happens to a pod. Requests come from the agent,
// results from the worker itself.
type event interface{ isEvent() }

type (
	// desire brings the newest version of the pod.
	desire struct{ pod *v1.Pod }
	// stop ends a pod that its source still has. A nil grace is the grace period of the pod.
	stop struct {
		grace *int64
		cause pod.Cause
	}
	// revive begins a new life if a passing cause ended the pod.
	revive struct{}
	// remove ends a pod that no source has any more.
	remove struct{}
	// finished is the result of a sync: all containers have ended and are not restarted.
	finished struct{ message string }
	// stopped is the result of a stop: nothing of the pod runs.
	stopped struct{}
	// erased is the result of a cleanup: nothing of the pod is left.
	erased struct{}
)

func (desire) isEvent()   {}
func (stop) isEvent()     {}
func (revive) isEvent()   {}
func (remove) isEvent()   {}
func (finished) isEvent() {}
func (stopped) isEvent()  {}
func (erased) isEvent()   {}

// newLife returns the life of a pod that a source has.
func newLife(p *v1.Pod) life { return life{}.on(desire{p}) }

// on returns the life after an event. Events that come too late change nothing.
func (l life) on(e event) life {
	switch e := e.(type) {
	case desire:
		if l.removed {
			l.next = e.pod
			return l
		}
		l.pod = e.pod
		switch {
		case e.pod.DeletionTimestamp != nil:
			return l.end(pod.Grace(e.pod), pod.Cause{Description: "it was deleted"})
		case pod.HasEnded(e.pod):
			return l.end(pod.Grace(e.pod), pod.Cause{Description: "it ended before"})
		}
	case stop:
		grace := pod.Grace(l.pod)
		if e.grace != nil {
			grace = *e.grace
		}
		return l.end(grace, e.cause)
	case revive:
		l.revive = l.phase >= Terminating && l.cause.Passing && !l.removed
		return l.reborn()
	case remove:
		l.removed = true
		l.revive = false
		l.next = nil // it was added again, and removed again
		return l.end(pod.Grace(l.pod), pod.Cause{Description: "its source no longer has it"})
	case finished:
		return l.end(pod.Grace(l.pod), pod.Cause{Description: e.message})
	case stopped:
		if l.phase == Terminating {
			l.phase = Terminated
		}
		return l.reborn()
	case erased:
		if l.phase == Terminated && l.removed {
			l.phase = Gone
		}
	}
	return l
}

// end moves a Syncing pod to Terminating, and shortens the grace period of a Terminating one.
func (l life) end(grace int64, cause pod.Cause) life {
	switch l.phase {
	case Syncing:
		l.phase, l.grace, l.cause = Terminating, grace, cause
	case Terminating:
		l.grace = min(l.grace, grace)
		l.revive = false // it is asked to stop once more
	}
	return l
}

// reborn begins the new life of a pod that is stopped and to be revived.
func (l life) reborn() life {
	if l.phase == Terminated && l.revive {
		return newLife(l.pod)
	}
	return l
}

// hasWork reports whether the phase asks for a step.
func (l life) hasWork() bool {
	return l.phase == Syncing || l.phase == Terminating || (l.phase == Terminated && (l.removed || l.deleted()))
}

// deleted reports whether the API server has the pod with a deletionTimestamp.
func (l life) deleted() bool { return l.pod.DeletionTimestamp != nil }

// interrupts reports whether a step that runs for before has to be cancelled: the pod is to be
// stopped, or sooner than it was.
func (l life) interrupts(before life) bool {
	return l.phase != before.phase || l.grace < before.grace
}
