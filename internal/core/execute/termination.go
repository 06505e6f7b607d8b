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

// termination is what the executor remembers of the end of one pod. It is a value: on returns the next one.
type termination struct {
	phase terminationPhase
	// reason is why the agent ended the pod: the first one stays. Nil: its containers ended by
	// themselves, or no source has the pod any more.
	reason *status.Termination
	// step is what is being done, in words for the pod's status, since when, and what holds it up.
	// Empty: nothing is being done.
	step     string
	since    time.Time
	obstacle string
}

// terminationEvent is something that happens on the way out of a pod.
type terminationEvent interface{ isTerminationEvent() }

type (
	// terminationDecided says that the agent ends the pod, and why.
	terminationDecided struct{ reason status.Termination }
	// stepBegan says that a step of the stop or of the cleanup is begun, or begun again.
	stepBegan struct {
		step string
		at   time.Time
	}
	// stepHeldUp says why that step does not come to an end.
	stepHeldUp struct{ obstacle string }
	// podStopped says that nothing of the pod runs, and nothing is held for it.
	podStopped struct{}
	// upstreamInformed says that the upstream was told so.
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

// progress is what the status of the pod says of its stop. Nil: nothing is being done.
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
