package plan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// A container may ask for a restart of all containers by the way it ends. That
// takes several plans, and the agent may be replaced in the middle of it. So it is
// read off the dead container that asked, the trigger: what was made before its
// end is outdated, and what is outdated is stopped and started again.

// bound says which containers count after a restart of all.
type bound struct {
	after time.Time      // the ones that were made after this,
	init  *pod.Container // and after this one, if they share a sandbox
	never bool           // none: an init container before them has yet to run anew
}

func (b bound) admits(c *pod.Container) bool {
	overtook := b.init != nil && b.init.SandboxID == c.SandboxID && !c.CreatedAt.After(b.init.CreatedAt)
	return !b.never && !overtook && c.CreatedAt.After(b.after)
}

// findTrigger finds the container that last asked for a restart of all. One that
// was itself stopped for such a restart, or because the pod had ended, asks for
// nothing.
func (v *view) findTrigger() {
	var asking []*pod.Container
	for i := range v.have.Containers {
		if v.asksForAll(i) {
			asking = append(asking, &v.have.Containers[i])
		}
	}
	slices.SortFunc(asking, func(a, b *pod.Container) int { return a.FinishedAt.Compare(b.FinishedAt) })
	for _, c := range asking {
		at, ended := v.ended()
		if tooLate := ended && !c.FinishedAt.Before(at); !tooLate && !v.outdated(c) {
			v.triggers = append(v.triggers, c)
			v.bounds = v.boundsAfter(c)
		}
	}
}

// trigger is the container that last asked for a restart of all, or nil.
func (v *view) trigger() *pod.Container {
	if len(v.triggers) == 0 {
		return nil
	}
	return v.triggers[len(v.triggers)-1]
}

// asksForAll tells whether the container at that place of the observation ended
// in a way that asks for a restart of all.
func (v *view) asksForAll(place int) bool {
	c := &v.have.Containers[place]
	spec := pod.ContainerSpec(v.want, c.Name)
	if spec == nil || c.State != pod.ContainerExited || verdictOn(v.want, spec, c) != restartAll {
		return false
	}
	if c.FinishedAt.After(v.now) {
		return false // the clock was set back: what was made before its end can't be told
	}
	for _, next := range slices.Backward(v.have.Containers[:place]) {
		if next.Name == c.Name {
			// Else it was stopped: there were two of it, or its spec had changed.
			return next.CreatedAt.After(c.FinishedAt) && c.Hash == next.Hash
		}
	}
	return true
}

// boundsAfter returns from when on the init containers count after the end of a
// trigger, and at last the main ones. One that was made after it still does not
// if an init container before it has not run anew: its start was under way when
// the trigger ended.
func (v *view) boundsAfter(trigger *pod.Container) []bound {
	out := make([]bound, 0, len(v.want.Spec.InitContainers)+1)
	b := bound{after: trigger.FinishedAt}
	for i := range v.want.Spec.InitContainers {
		spec := &v.want.Spec.InitContainers[i]
		out = append(out, b)
		if c := v.have.Container(spec.Name); c != nil && !pod.IsSidecar(spec) {
			b.never = b.never || !c.CreatedAt.After(trigger.FinishedAt)
			b.init = c
		}
	}
	return append(out, b)
}

// outdated tells whether c has to be restarted with all others.
func (v *view) outdated(c *pod.Container) bool {
	if len(v.triggers) == 0 || isEphemeral(v.want, c.Name) {
		return false
	}
	place := slices.IndexFunc(v.want.Spec.InitContainers, func(spec v1.Container) bool { return spec.Name == c.Name })
	if place < 0 {
		place = len(v.want.Spec.InitContainers)
	}
	return !v.bounds[place].admits(c)
}

// keptTriggers returns the IDs of the dead containers that are still needed to know
// who is outdated, or asks for a restart only because it was stopped for one: for
// each of these the first that asked, and the last of all.
func (v *view) keptTriggers() map[string]bool {
	if len(v.triggers) == 0 {
		return nil
	}
	kept := map[string]bool{}
	seen := map[string]bool{}
	for i := range v.have.Containers {
		c := &v.have.Containers[i]
		newest := !seen[c.Name]
		seen[c.Name] = true
		if !v.outdated(c) || slices.Contains(v.triggers, c) || pod.ContainerSpec(v.want, c.Name) == nil || !newest && !v.asksForAll(i) {
			continue
		}
		kept[v.trigger().ID] = true
		for _, t := range v.triggers {
			if !c.CreatedAt.After(t.FinishedAt) {
				kept[t.ID] = true
				break
			}
		}
	}
	return kept
}

// restartAllAt is when the wait of the container that asked for a restart of all
// is over, and whether that is still to come.
func (v *view) restartAllAt() (time.Time, bool) {
	t := v.trigger()
	if t == nil || v.current(t.Name) != nil {
		return time.Time{}, false
	}
	until, _ := v.rules.after(t, v.now)
	return until, v.now.Before(until)
}

// restartingAll tells whether a container asked for a restart of all, and some of
// the main ones have not been made anew yet.
func (v *view) restartingAll() bool {
	if v.trigger() == nil {
		return false
	}
	for i := range v.want.Spec.Containers {
		if v.current(v.want.Spec.Containers[i].Name) == nil {
			return true
		}
	}
	return false
}
