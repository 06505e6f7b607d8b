package plan

import (
	"time"

	"berth/internal/lib/pod"
)

// A container may ask for a restart of all containers by the way it ends. That
// takes several plans, and the agent may be replaced in the middle of it. So every
// container is marked with the round that it was started in: how many restarts of
// all came before. What is of an earlier round than the newest is outdated: it is
// stopped, and started again.

// findRound finds out which round the pod is in: the newest that was begun, or the
// one after it if a container of that round has asked for it since.
func (v *view) findRound() {
	for i := range v.have.Containers {
		if c := &v.have.Containers[i]; !isEphemeral(v.want, c.Name) {
			v.round = max(v.round, c.Round)
		}
	}
	at, ended := v.ended()
	for i := range v.have.Containers {
		c := &v.have.Containers[i]
		stopped := ended && !c.FinishedAt.Before(at) // because the pod had ended
		first := v.trigger == nil || c.FinishedAt.Before(v.trigger.FinishedAt)
		if v.triggersRestartAll(c) && c.Round == v.round && !c.Past && !stopped && first {
			v.trigger = c
		}
	}
	if v.trigger != nil {
		v.round++
	}
}

// triggersRestartAll tells whether c ended in a way that asks for a restart of all. One
// that was replaced did not: it was stopped for that, say because its spec changed.
func (v *view) triggersRestartAll(c *pod.Container) bool {
	if c.State != pod.ContainerExited || v.have.Container(c.Name) != c {
		return false
	}
	spec := pod.ContainerSpec(v.want, c.Name)
	return spec != nil && verdictOn(v.want, spec, c) == restartAll
}

// outdated tells whether c has to be restarted with all others.
func (v *view) outdated(c *pod.Container) bool {
	return c.Round < v.round && !isEphemeral(v.want, c.Name)
}

// restartAllAt is when the wait of the container that asked for a restart of all
// is over, and whether that is still to come.
func (v *view) restartAllAt() (time.Time, bool) {
	if v.trigger == nil {
		return time.Time{}, false
	}
	until, _ := v.rules.after(v.trigger, v.now)
	return until, v.now.Before(until)
}

// restartAllReason says to people why an outdated container is stopped.
func (v *view) restartAllReason() string {
	if v.trigger == nil {
		return "all containers are restarted"
	}
	return "container " + v.trigger.Name + " asked for a restart of all"
}

// restartingAll tells whether a container asked for a restart of all, and some of
// the main ones have not been made anew yet.
func (v *view) restartingAll() bool {
	for i := range v.want.Spec.Containers {
		if c := v.have.Container(v.want.Spec.Containers[i].Name); c != nil && v.outdated(c) {
			return true
		}
	}
	return false
}
