package plan

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// decisions are the actions and waits for the containers of a pod. A container may be
// stopped and started in the same plan.
type decisions struct {
	stops, drops, starts []Action
	waits                []Wait
}

const reasonLostTrack = "the runtime lost track of it"

// ephemeral decides on ephemeral containers. They need a pod whose sandbox exists, and are
// started once.
func (v *view) ephemeral(d *decisions) {
	if !v.usable {
		return
	}
	for i := range v.want.Spec.EphemeralContainers {
		spec := v1.Container(v.want.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		switch c := v.have.Container(spec.Name); {
		case c == nil:
			d.starts = append(d.starts, StartContainer{Name: spec.Name, Hash: ContainerHash(&spec)})
		case c.State == pod.ContainerCreated:
			d.drops = append(d.drops, DropContainer{ID: c.ID})
			d.starts = append(d.starts, StartContainer{Name: spec.Name, Hash: ContainerHash(&spec)})
		case c.State == pod.ContainerUnknown && c.SandboxID == v.have.Sandboxes[0].ID:
			d.stops = append(d.stops, StopContainer{ID: c.ID, Name: c.Name, Reason: reasonLostTrack})
		}
	}
}

// containers decides on init containers and sidecars first, and on the main containers once
// those have come far enough.
func (v *view) containers(d *decisions) {
	if until, waiting := v.restartAllAt(); waiting {
		d.waits = append(d.waits, v.crashLoop(v.trigger, until))
		return // the others are stopped meanwhile, see stopUnwanted
	}
	var main decisions
	for i := range v.want.Spec.Containers {
		v.decide(&main, &v.want.Spec.Containers[i])
	}
	if !v.usable && len(main.starts) == 0 {
		d.drops, d.waits = main.drops, main.waits
		return // a sandbox is made only when a main container is to be started
	}
	if v.initContainers(d) {
		d.stops = append(d.stops, main.stops...)
		d.drops = append(d.drops, main.drops...)
		d.starts = append(d.starts, main.starts...)
		d.waits = append(d.waits, main.waits...)
	}
}

// initContainers decides on the init containers, one after the other, and tells
// whether the main containers may run.
func (v *view) initContainers(d *decisions) (passed bool) {
	if len(v.want.Spec.InitContainers) == 0 {
		return true
	}
	if !v.usable && v.endInDoubt() {
		return false
	}
	initialized := v.initialized()
	reached := v.initReached()
	for i := range v.want.Spec.InitContainers {
		spec := &v.want.Spec.InitContainers[i]
		c := v.current(spec.Name)
		switch {
		case pod.IsSidecar(spec):
			before := len(d.starts)
			v.decide(d, spec)
			up := c != nil && isUp(c) && len(d.starts) == before
			if !initialized && !up {
				return false
			}
		case initialized, i < reached: // it has had its turn, even if it was removed
		case c != nil && c.State == pod.ContainerExited && c.ExitCode == 0:
		default:
			v.decide(d, spec)
			return false
		}
	}
	return true
}

// isUp reports whether a container runs, its postStart hook has ended and its startup probe has succeeded.
func isUp(c *pod.Container) bool {
	return c.State == pod.ContainerRunning && !c.Starting && (c.Health.Started == nil || *c.Health.Started)
}

// initReached is the index of the last init container that was created in
// the sandbox in use: all before it had their turn.
func (v *view) initReached() int {
	for i := len(v.want.Spec.InitContainers) - 1; i >= 0; i-- {
		if v.current(v.want.Spec.InitContainers[i].Name) != nil {
			return i
		}
	}
	return -1
}

// decide adds the actions for one container: an init container whose turn it is,
// a sidecar, or a main container.
func (v *view) decide(d *decisions, spec *v1.Container) {
	hash := ContainerHash(spec)
	last := v.have.Container(spec.Name)
	if last == nil {
		d.starts = append(d.starts, StartContainer{Name: spec.Name, Hash: hash, Round: v.round, RestartCount: v.have.EarlierRestarts[spec.Name]})
		return
	}
	next := StartContainer{
		Name: spec.Name, Hash: hash, Round: v.round, Attempt: last.Attempt + 1, RestartCount: last.RestartCount + 1, Backoff: last.Backoff,
	}
	if last.PreviousLife {
		next.RestartCount, next.Backoff = 0, 0
	}
	changed := last.Hash != "" && last.Hash != hash
	current := v.current(spec.Name) != nil

	switch last.State {
	case pod.ContainerCreated:
		next.Attempt = last.Attempt // it never ran
		if !last.PreviousLife {
			next.RestartCount = last.RestartCount
		}
		d.drops = append(d.drops, DropContainer{ID: last.ID})
		d.starts = append(d.starts, next)

	case pod.ContainerUnknown:
		// Once it is stopped it is an exited one, and the next plan decides.
		if current { // else it is stopped anyway, see stopUnwanted and stopSandboxes
			d.stops = append(d.stops, StopContainer{ID: last.ID, Name: spec.Name, Reason: reasonLostTrack})
		}

	case pod.ContainerRunning:
		switch {
		case current && changed && pod.IsInit(v.want, spec.Name) && !pod.IsSidecar(spec):
			// An init container is not broken off: the new spec is used if it fails, as with the kubelet.
		case current && changed:
			d.stops = append(d.stops, StopContainer{ID: last.ID, Name: spec.Name, Reason: "its spec changed", Restart: true})
			next.Backoff = 0
			d.starts = append(d.starts, next)
		case current && last.Health.Dead != "":
			// The plan that sees it dead decides when to restart it.
			d.stops = append(d.stops, StopContainer{ID: last.ID, Name: spec.Name, Reason: last.Health.Dead, Grace: last.Health.Grace, Restart: v.mayComeBack(spec)})
		case current:
		case v.outdated(last) || changed || v.mayComeBack(spec):
			d.starts = append(d.starts, next) // the old one is stopped before, see stopUnwanted and stopSandboxes
		}

	default:
		v.decideOnDead(d, spec, last, next, changed)
	}
}

func (v *view) decideOnDead(d *decisions, spec *v1.Container, last *pod.Container, next StartContainer, changed bool) {
	rerun := pod.IsInit(v.want, spec.Name) && v.current(spec.Name) == nil
	if !v.outdated(last) && !rerun && verdictOn(v.want, spec, last) == final {
		return
	}
	if changed {
		next.Backoff = 0 // the failures of the old spec do not count
		d.starts = append(d.starts, next)
		return
	}
	if last.PreviousLife || rerun && last.ExitCode == 0 || v.outdated(last) && !v.triggersRestartAll(last) {
		d.starts = append(d.starts, next) // it has to run again, and it did not fail
		return
	}
	until, backoff := v.rules.after(last, v.now)
	if v.now.Before(until) {
		d.waits = append(d.waits, v.crashLoop(last, until))
		return
	}
	next.Backoff = backoff
	d.starts = append(d.starts, next)
}

func (v *view) crashLoop(dead *pod.Container, until time.Time) Wait {
	return Wait{
		Container: dead.Name,
		Until:     until,
		Reason:    pod.ReasonCrashLoopBackOff,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s(%s)",
			until.Sub(dead.FinishedAt), dead.Name, pod.FullName(v.want), v.want.UID),
	}
}
