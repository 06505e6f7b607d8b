package execute

import (
	"time"

	"berth/internal/core/status"
)

// terminationPhase is how far a pod has come on its way out. It only moves on:
//
//	             step began                    pod stopped             upstream informed
//	active ──────────────────────▶ stopping ───────────────▶ stopped ────────────────────▶ released
//	kept as its spec says          containers, sandbox,      nothing runs,                 its deletion may
//	                               volumes, cgroup go        nothing is held               be completed
//
// A new life of the pod begins with a new memory (see beginLife). Steps that are performed again after
// the stop, and those of a cleanup, are shown and change no phase.
type terminationPhase int

const (
	active terminationPhase = iota
	stopping
	stopped
	released
)

// termination is the state of the termination of one pod. It is a value: on returns the next state.
type termination struct {
	phase terminationPhase
	// reason is the first reason for which the agent ended the pod. Nil: its containers ended by
	// themselves, or no source has the pod any more.
	reason *status.Termination
	// step is the present step, as in the pod's status, since its start, and obstacle the reason for
	// which it does not end. Empty: no step is under way.
	step     string
	since    time.Time
	obstacle string
}

// terminationEvent is an input of termination.on.
type terminationEvent interface{ isTerminationEvent() }

type (
	// terminationDecided: the agent ends the pod, for a reason.
	terminationDecided struct{ reason status.Termination }
	// stepBegan: a step of the stop or of the cleanup has begun, or begun again.
	stepBegan struct {
		step string
		at   time.Time
	}
	// stepHeldUp: the step can't end because of an obstacle.
	stepHeldUp struct{ obstacle string }
	// podStopped: no container of the pod runs, and its resources are freed.
	podStopped struct{}
	// upstreamInformed: the upstream knows that the pod is stopped.
	upstreamInformed struct{}
)

func (terminationDecided) isTerminationEvent() {}
func (stepBegan) isTerminationEvent()          {}
func (stepHeldUp) isTerminationEvent()         {}
func (podStopped) isTerminationEvent()         {}
func (upstreamInformed) isTerminationEvent()   {}

// on returns the termination after an event. An event for which it is too early or too late changes
// nothing.
func (t termination) on(e terminationEvent) termination {
	switch e := e.(type) {
	case terminationDecided:
		if t.reason == nil {
			t.reason = &e.reason
		}
	case stepBegan:
		t.phase = max(t.phase, stopping)
		if t.step != e.step {
			t.step, t.since, t.obstacle = e.step, e.at, ""
		}
	case stepHeldUp:
		if t.step != "" {
			t.obstacle = e.obstacle
		}
	case podStopped:
		t.phase = max(t.phase, stopped)
		t.step, t.since, t.obstacle = "", time.Time{}, ""
	case upstreamInformed:
		if t.phase == stopped {
			t.phase = released
		}
	}
	return t
}

// progress returns the present step of the stop for the pod's status. Nil: no step is under way.
func (t termination) progress() *status.TerminationStep {
	if t.step == "" {
		return nil
	}
	out := &status.TerminationStep{Step: t.step, Since: t.since}
	if t.obstacle != "" {
		out.Step += ": " + t.obstacle
	}
	return out
}
