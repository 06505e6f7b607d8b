// Package plan decides which actions lead from the observed pod to the desired one. Package execute
// calls it in each sync and performs the actions.
//
// It is pure: the same pod, observation and time give the same plan, and nothing
// is remembered between two calls. What a decision needs to know of the past (the restart
// count of a container, its next back-off) was written on the
// containers when they were made, so a restarted agent decides as the old one did.
package plan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Action is one change of a sandbox or container in the runtime.
type Action interface{ isAction() }

// The actions, in the order in which a plan lists them.
type (
	// StopSandbox stops a sandbox and every container in it.
	StopSandbox struct {
		ID     string
		Reason string
	}
	// StopContainer stops one container. Name and reason are for logs and events.
	StopContainer struct {
		ID      string
		Name    string
		Reason  string
		Grace   *int64 // seconds that it has; nil: as many as the pod
		Restart bool   // it runs again, whatever its exit code will be
	}
	// DropContainer removes a container that was created but never started, so that
	// its name can be used again.
	DropContainer struct{ ID string }
	// CreateSandbox creates and starts a sandbox.
	CreateSandbox struct {
		Attempt   uint32
		Hash      string
		FirstSeen time.Time // of the pod, as the sandbox before it says; zero: it is the first
	}
	// StartContainer creates and starts a container in the newest sandbox.
	StartContainer struct {
		Name         string
		Hash         string        // of its spec
		Round        int           // how many restarts of all came before it
		Attempt      int32         // how many of its name came before it
		RestartCount int32         // how many of them in this life of the pod, and in those before that users restarted
		Backoff      time.Duration // to be waited after its end
	}
	// RemoveContainer removes a dead container that is neither shown nor restarted any more.
	RemoveContainer struct {
		ID      string
		LogPath string
	}
	// RemoveSandbox removes a dead sandbox without containers.
	RemoveSandbox struct{ ID string }
)

func (StopSandbox) isAction()     {}
func (StopContainer) isAction()   {}
func (DropContainer) isAction()   {}
func (CreateSandbox) isAction()   {}
func (StartContainer) isAction()  {}
func (RemoveContainer) isAction() {}
func (RemoveSandbox) isAction()   {}

// Wait is a container whose start waits for its back-off to pass.
type Wait struct {
	Container string
	Until     time.Time
	Reason    string
	Message   string
}

// Plan is a list of actions to perform now, and the starts that have to wait.
type Plan struct {
	Actions []Action
	Waits   []Wait
	// Finished is set when nothing of the pod runs and nothing of it ever will.
	Finished bool
	// RestartingAll is set while all containers are restarted because one asked for it.
	RestartingAll bool
}

// Due is when a plan should be made again even if nothing happens: the end of the first wait. It is zero
// if there is none.
func (p Plan) Due() time.Time {
	var due time.Time
	for _, w := range p.Waits {
		if due.IsZero() || w.Until.Before(due) {
			due = w.Until
		}
	}
	return due
}

// FirstStart reports whether the plan brings the pod up, as opposed to restarting a container of one
// that is already up. Only first starts queue for a start slot.
func (p Plan) FirstStart() bool {
	for _, a := range p.Actions {
		switch a := a.(type) {
		case CreateSandbox:
			return true
		case StartContainer:
			if a.RestartCount == 0 {
				return true
			}
		}
	}
	return false
}

// Next returns the plan that brings have closer to want.
func Next(want *v1.Pod, have pod.Observed, rules Backoff, now time.Time) Plan {
	v := newView(want, have, rules, now)
	if _, ended := v.ended(); ended {
		return Plan{Finished: true}
	}
	var d decisions
	v.ephemeral(&d)
	v.containers(&d)

	p := Plan{Waits: d.waits, RestartingAll: v.restartingAll()}
	starting := len(d.starts) > 0
	p.Actions = append(p.Actions, stopSandboxes(have, v.usable, starting)...)
	if v.usable { // else they go with their sandbox
		p.Actions = append(p.Actions, d.stops...)
		p.Actions = append(p.Actions, v.stopUnwanted()...)
	}
	p.Actions = append(p.Actions, d.drops...)
	if starting && !v.usable {
		p.Actions = append(p.Actions, CreateSandbox{
			Attempt: nextAttempt(have), Hash: SandboxHash(want), FirstSeen: firstSeen(have),
		})
	}
	p.Actions = append(p.Actions, d.starts...)
	p.Actions = append(p.Actions, v.garbage()...)
	return p
}

// view is the desired and the observed pod, with conclusions that several rules need.
type view struct {
	want  *v1.Pod
	have  pod.Observed
	rules Backoff
	now   time.Time

	usable bool // the newest sandbox is ready, in its cgroup, and was made from the current spec
	// round counts the restarts of all containers, and trigger is the container
	// that asked for one that has yet to begin: see restartall.go.
	round   int
	trigger *pod.Container
}

func newView(want *v1.Pod, have pod.Observed, rules Backoff, now time.Time) *view {
	v := &view{want: want, have: have, rules: rules, now: now}
	s := have.Sandbox()
	v.usable = s != nil && s.State == pod.SandboxReady && !s.PreviousLife && !have.CgroupGone && (s.Hash == "" || s.Hash == SandboxHash(want))
	v.findRound()
	return v
}

// current returns the newest container of that name in the sandbox in use. It is nil if there is
// none, or a restart of all containers was requested after it was created.
func (v *view) current(name string) *pod.Container {
	c := v.have.Container(name)
	if c == nil || !v.usable || c.SandboxID != v.have.Sandboxes[0].ID || v.outdated(c) {
		return nil
	}
	return c
}

// initialized reports whether the init containers have had their turn: a main container was created
// in the sandbox in use. That holds even if the init containers were removed long ago.
func (v *view) initialized() bool {
	return slices.ContainsFunc(v.want.Spec.Containers, func(c v1.Container) bool { return v.current(c.Name) != nil })
}
