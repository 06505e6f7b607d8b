// Package plan decides what moves a pod from what the runtime holds of it
// towards what is wanted of it.
//
// It is pure: the same pod, observation and time give the same plan, and nothing
// is remembered between two calls. What a decision needs to know of the past (how
// often a container was restarted, how long the next wait is) was written on the
// containers when they were made, so a restarted agent decides as the old one did.
package plan

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// Action is one thing to be done to a pod in the runtime.
type Action interface{ isAction() }

// The actions, in the order in which a plan lists them.
type (
	// StopSandbox stops a sandbox and every container in it.
	StopSandbox struct {
		ID  string
		Why string
	}
	// StopContainer stops one container. What it is called and why is for people.
	StopContainer struct {
		ID   string
		Name string
		Why  string
	}
	// DropContainer removes a container that was made but never started, so that
	// its name is free again.
	DropContainer struct{ ID string }
	// CreateSandbox makes and starts a sandbox.
	CreateSandbox struct {
		Attempt   uint32
		Hash      string
		FirstSeen time.Time // of the pod, as the sandbox before it says; zero: it is the first
	}
	// StartContainer makes and starts a container in the newest sandbox.
	StartContainer struct {
		Name         string
		Hash         string
		RestartCount int32
		Backoff      time.Duration // to be waited after its end
	}
	// RemoveContainer removes a dead container that nobody asks for any more.
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

// Wait is a container that is to be started, but not yet.
type Wait struct {
	Container string
	Until     time.Time
	Reason    string
	Message   string
}

// Plan is what to do now, and what to come back for.
type Plan struct {
	Actions []Action
	Waits   []Wait
	// Finished is set when nothing of the pod runs and nothing of it ever will.
	Finished bool
}

// Due is when a plan should be made again even if nothing happens. It is zero
// if there is nothing to wait for.
func (p Plan) Due() time.Time {
	var due time.Time
	for _, w := range p.Waits {
		if due.IsZero() || w.Until.Before(due) {
			due = w.Until
		}
	}
	return due
}

// FirstStart tells whether the plan brings the pod up, as opposed to mending one
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

// Next returns what moves have towards want.
func Next(want *v1.Pod, have pod.Observed, rules Backoff, now time.Time) Plan {
	var p Plan
	if p.Finished = finished(want, have); p.Finished {
		return p
	}

	wantSandbox := SandboxHash(want)
	sandbox := have.Sandbox()
	usable := sandbox != nil && sandbox.State == pod.SandboxReady && (sandbox.Hash == "" || sandbox.Hash == wantSandbox)

	var stops, drops, starts []Action
	for i := range want.Spec.Containers {
		c := &want.Spec.Containers[i]
		d := decide(want, c, have, usable, rules, now)
		if d.stop != nil {
			stops = append(stops, *d.stop)
		}
		if d.drop != nil {
			drops = append(drops, *d.drop)
		}
		if d.start != nil {
			starts = append(starts, *d.start)
		}
		if d.wait != nil {
			p.Waits = append(p.Waits, *d.wait)
		}
	}
	if usable {
		stops = append(stops, stopUnwanted(want, have, sandbox.ID)...)
	} else {
		stops = nil // they go with their sandbox
	}

	p.Actions = append(p.Actions, stopSandboxes(have, usable, len(starts) > 0)...)
	p.Actions = append(p.Actions, stops...)
	p.Actions = append(p.Actions, drops...)
	if len(starts) > 0 {
		if !usable {
			p.Actions = append(p.Actions, CreateSandbox{
				Attempt: nextAttempt(have), Hash: wantSandbox, FirstSeen: firstSeen(have),
			})
		}
		p.Actions = append(p.Actions, starts...)
	}
	p.Actions = append(p.Actions, garbage(want, have, usable)...)
	return p
}

// finished tells whether every container ended for good.
func finished(want *v1.Pod, have pod.Observed) bool {
	for i := range want.Spec.Containers {
		c := have.Container(want.Spec.Containers[i].Name)
		if c == nil || c.State != pod.ContainerExited || restarts(want, c) {
			return false
		}
	}
	return true
}

// restarts tells whether the restart policy lets a dead container come back.
func restarts(want *v1.Pod, dead *pod.Container) bool {
	switch want.Spec.RestartPolicy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return dead.ExitCode != 0
	default:
		return true
	}
}

// decision is what becomes of one container of the spec. A container may be
// stopped and started in the same plan.
type decision struct {
	stop  *StopContainer
	drop  *DropContainer
	start *StartContainer
	wait  *Wait
}

func decide(want *v1.Pod, c *v1.Container, have pod.Observed, usable bool, rules Backoff, now time.Time) decision {
	hash := ContainerHash(c)
	cur := have.Container(c.Name)
	if cur == nil {
		return decision{start: &StartContainer{Name: c.Name, Hash: hash}}
	}
	changed := cur.Hash != "" && cur.Hash != hash
	inPlace := usable && cur.SandboxID == have.Sandboxes[0].ID

	switch cur.State {
	case pod.ContainerRunning:
		if inPlace && !changed {
			return decision{}
		}
		d := decision{start: &StartContainer{Name: c.Name, Hash: hash, RestartCount: cur.RestartCount + 1}}
		if changed {
			d.stop = &StopContainer{ID: cur.ID, Name: c.Name, Why: "its spec changed"}
		} else if want.Spec.RestartPolicy == v1.RestartPolicyNever {
			d.start = nil // it goes with its sandbox, and that was its one life
		} else {
			d.start.Backoff = cur.Backoff
		}
		return d

	case pod.ContainerCreated:
		return decision{
			drop:  &DropContainer{ID: cur.ID},
			start: &StartContainer{Name: c.Name, Hash: hash, RestartCount: cur.RestartCount, Backoff: cur.Backoff},
		}

	case pod.ContainerUnknown:
		// Once it is stopped it is an exited one, and the next plan decides.
		return decision{stop: &StopContainer{ID: cur.ID, Name: c.Name, Why: "the runtime lost track of it"}}
	}

	if !restarts(want, cur) {
		return decision{}
	}
	start := &StartContainer{Name: c.Name, Hash: hash, RestartCount: cur.RestartCount + 1}
	if changed {
		return decision{start: start} // a new spec is a new chance
	}
	until, next := rules.after(cur, now)
	if now.Before(until) {
		return decision{wait: &Wait{
			Container: c.Name,
			Until:     until,
			Reason:    pod.ReasonCrashLoopBackOff,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s(%s)",
				until.Sub(cur.FinishedAt), c.Name, pod.FullName(want), want.UID),
		}}
	}
	start.Backoff = next
	return decision{start: start}
}

// stopSandboxes stops every live sandbox but the one that stays in use. One that
// died by itself still holds its address and its host ports: it is stopped
// before another takes its place.
func stopSandboxes(have pod.Observed, usable, replaced bool) []Action {
	var out []Action
	for i, s := range have.Sandboxes {
		switch {
		case i == 0 && usable:
		case i == 0 && s.State == pod.SandboxReady:
			out = append(out, StopSandbox{ID: s.ID, Why: "its spec changed"})
		case s.State == pod.SandboxReady:
			out = append(out, StopSandbox{ID: s.ID, Why: "a newer one took its place"})
		case alive(have, s.ID):
			out = append(out, StopSandbox{ID: s.ID, Why: "it is dead, but containers of it are not"})
		case i == 0 && replaced:
			out = append(out, StopSandbox{ID: s.ID, Why: "it is dead, and another takes its place"})
		}
	}
	return out
}

func alive(have pod.Observed, sandboxID string) bool {
	return slices.ContainsFunc(have.Containers, func(c pod.Container) bool {
		return c.SandboxID == sandboxID && mayRun(c)
	})
}

// mayRun tells whether a container runs, or may do so for all that is known.
func mayRun(c pod.Container) bool {
	return c.State == pod.ContainerRunning || c.State == pod.ContainerUnknown
}

// stopUnwanted stops containers of the sandbox in use that the spec no longer
// has, and all but the newest of those that run twice.
func stopUnwanted(want *v1.Pod, have pod.Observed, sandboxID string) []Action {
	var out []Action
	newest := map[string]bool{}
	for _, c := range have.Containers {
		first := !newest[c.Name]
		newest[c.Name] = true
		if c.SandboxID != sandboxID || !mayRun(c) {
			continue
		}
		switch {
		case !inSpec(want, c.Name):
			out = append(out, StopContainer{ID: c.ID, Name: c.Name, Why: "the spec no longer has it"})
		case !first:
			out = append(out, StopContainer{ID: c.ID, Name: c.Name, Why: "a newer one took its place"})
		}
	}
	return out
}

func inSpec(want *v1.Pod, name string) bool {
	return slices.ContainsFunc(want.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
}

// garbage removes dead containers but for the newest of each name, which users
// ask about ("why did it restart", "logs of the one before"), those that were
// made and will never be started, and dead sandboxes in which nothing is left.
func garbage(want *v1.Pod, have pod.Observed, usable bool) []Action {
	var out []Action
	keptDead := map[string]bool{}
	left := map[string]int{}
	seen := map[string]bool{}
	for _, c := range have.Containers {
		first := !seen[c.Name]
		seen[c.Name] = true
		wanted := inSpec(want, c.Name)
		stillborn := c.State == pod.ContainerCreated && (!first || !wanted)
		dead := c.State == pod.ContainerExited && (keptDead[c.Name] || !wanted)
		if stillborn || dead {
			out = append(out, RemoveContainer{ID: c.ID, LogPath: c.LogPath})
			continue
		}
		if c.State == pod.ContainerExited {
			keptDead[c.Name] = true
		}
		left[c.SandboxID]++
	}
	for i, s := range have.Sandboxes {
		inUse := i == 0 && usable
		if !inUse && s.State == pod.SandboxNotReady && left[s.ID] == 0 {
			out = append(out, RemoveSandbox{ID: s.ID})
		}
	}
	return out
}

func nextAttempt(have pod.Observed) uint32 {
	var next uint32
	for _, s := range have.Sandboxes {
		next = max(next, s.Attempt+1)
	}
	return next
}

// firstSeen is when the pod was first seen by the agent that made its oldest
// sandbox. A later agent saw it later.
func firstSeen(have pod.Observed) time.Time {
	if n := len(have.Sandboxes); n > 0 {
		return have.Sandboxes[n-1].FirstSeen
	}
	return time.Time{}
}
