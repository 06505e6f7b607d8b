package plan

import (
	"slices"
	"time"

	"berth/internal/lib/pod"
)

// stopSandboxes stops every ready sandbox but the one in use. A sandbox that
// died still holds its address and its host ports: it is stopped
// before it is replaced.
func stopSandboxes(have pod.Observed, usable, replaced bool) []Action {
	var out []Action
	for i, s := range have.Sandboxes {
		switch {
		case i == 0 && usable:
		case s.PreviousLife && s.State == pod.SandboxReady:
			out = append(out, StopSandbox{ID: s.ID, Reason: "it is of an earlier life of the pod"})
		case i == 0 && s.State == pod.SandboxReady && have.CgroupGone:
			out = append(out, StopSandbox{ID: s.ID, Reason: "its cgroup is gone"})
		case i == 0 && s.State == pod.SandboxReady:
			out = append(out, StopSandbox{ID: s.ID, Reason: "its spec changed"})
		case s.State == pod.SandboxReady:
			out = append(out, StopSandbox{ID: s.ID, Reason: "a newer one took its place"})
		case hasRunning(have, s.ID):
			out = append(out, StopSandbox{ID: s.ID, Reason: "it is dead, but containers of it are not"})
		case i == 0 && replaced:
			out = append(out, StopSandbox{ID: s.ID, Reason: "it is dead, and another takes its place"})
		}
	}
	return out
}

// hasRunning reports whether a container of a sandbox may run.
func hasRunning(have pod.Observed, sandboxID string) bool {
	return slices.ContainsFunc(have.Containers, func(c pod.Container) bool {
		return c.SandboxID == sandboxID && c.MayRun()
	})
}

// stopUnwanted stops containers of the sandbox in use that the spec no longer
// has, all but the newest of those that run twice, and those that were asked to
// restart with all others.
func (v *view) stopUnwanted() []Action {
	var out []Action
	newest := map[string]bool{}
	for _, c := range v.have.Containers {
		first := !newest[c.Name]
		newest[c.Name] = true
		if c.SandboxID != v.have.Sandboxes[0].ID || !c.MayRun() {
			continue
		}
		switch {
		case pod.ContainerSpec(v.want, c.Name) == nil:
			out = append(out, StopContainer{ID: c.ID, Name: c.Name, Reason: "the spec no longer has it"})
		case !first:
			out = append(out, StopContainer{ID: c.ID, Name: c.Name, Reason: "a newer one took its place"})
		case v.outdated(&c):
			out = append(out, StopContainer{ID: c.ID, Name: c.Name, Reason: v.restartAllReason()})
		}
	}
	return out
}

// garbage removes dead containers but for the newest of each name, whose state and log users
// ask for, containers that were created and will never be started, and dead sandboxes without
// containers.
func (v *view) garbage() []Action {
	var out []Action
	keptDead := map[string]bool{}
	left := map[string]int{}
	seen := map[string]bool{}
	for _, c := range v.have.Containers {
		first := !seen[c.Name]
		seen[c.Name] = true
		wanted := pod.ContainerSpec(v.want, c.Name) != nil
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
	for i, s := range v.have.Sandboxes {
		inUse := i == 0 && v.usable
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

// firstSeen is when the agent first saw the pod, as the oldest sandbox of this life says. A restarted
// agent saw it later.
func firstSeen(have pod.Observed) time.Time {
	for _, s := range slices.Backward(have.Sandboxes) {
		if !s.PreviousLife {
			return s.FirstSeen
		}
	}
	return time.Time{}
}
