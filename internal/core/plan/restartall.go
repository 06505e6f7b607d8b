package plan

import (
	"time"

	"berth/internal/lib/pod"
)

// The exit code of a container may ask for a restart of all containers (the action
// RestartAllContainers). That takes several plans, and the agent may be restarted meanwhile. So every
// container is annotated with its round: how many restarts of
// all came before. A container of an earlier round than the newest is outdated: it is
// stopped, and started again.

// findRound finds the round of the pod: the newest among its containers, or the
// next one if a container of that round has asked for a restart of all.
func (v *view) findRound() {
	for i := range v.have.Containers {
		if c := &v.have.Containers[i]; !pod.IsEphemeral(v.want, c.Name) {
			v.round = max(v.round, c.Round)
		}
	}
	at, ended := v.ended()
	for i := range v.have.Containers {
		c := &v.have.Containers[i]
		stopped := ended && !c.FinishedAt.Before(at) // because the pod had ended
		first := v.trigger == nil || c.FinishedAt.Before(v.trigger.FinishedAt)
		if v.triggersRestartAll(c) && c.Round == v.round && !c.PreviousLife && !stopped && first {
			v.trigger = c
		}
	}
	if v.trigger != nil {
		v.round++
	}
}

// triggersRestartAll reports whether the exit code of c asks for a restart of all. That of a container
// that was replaced does not count: it was stopped, say because its spec changed.
func (v *view) triggersRestartAll(c *pod.Container) bool {
	if c.State != pod.ContainerExited || v.have.Container(c.Name) != c {
		return false
	}
	spec := pod.ContainerSpec(v.want, c.Name)
	return spec != nil && verdictOn(v.want, spec, c) == restartAll
}

// outdated reports whether c has to be restarted with all others.
func (v *view) outdated(c *pod.Container) bool {
	return c.Round < v.round && !pod.IsEphemeral(v.want, c.Name)
}

// restartAllAt is when the back-off of the container that asked for a restart of all
// ends, and whether that is in the future.
func (v *view) restartAllAt() (time.Time, bool) {
	if v.trigger == nil {
		return time.Time{}, false
	}
	until, _ := v.rules.after(v.trigger, v.now)
	return until, v.now.Before(until)
}

// restartAllReason is why an outdated container is stopped, for logs.
func (v *view) restartAllReason() string {
	if v.trigger == nil {
		return "all containers are restarted"
	}
	return "container " + v.trigger.Name + " asked for a restart of all"
}

// restartingAll reports whether a container asked for a restart of all, and a main container
// has not been replaced yet.
func (v *view) restartingAll() bool {
	for i := range v.want.Spec.Containers {
		if c := v.have.Container(v.want.Spec.Containers[i].Name); c != nil && v.outdated(c) {
			return true
		}
	}
	return false
}
