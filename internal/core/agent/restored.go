package agent

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// A pod that is remembered from before a restart may have lost its manifest meanwhile. If it runs,
// it goes on: no pod is ended before its source was read. If it does not run, it is started once
// its source was read and still has it, or can't be read. Otherwise a job whose manifest was
// removed would run again.

// reasonSourceNotRead is the reason in the status of a remembered pod that waits for its source.
// Its phase is Pending.
const reasonSourceNotRead = "SourceNotRead"

// handleRestored adds pods that are remembered from before a restart, and decides on those that
// run.
func (a *Agent) handleRestored(group *run.Group, u pod.Update) {
	a.forgetPastEphemeralContainers(u.Pods)
	var runs []*v1.Pod
	for _, p := range u.Pods {
		if a.ranAtStart(p.UID) {
			runs = append(runs, p)
			continue
		}
		a.Desired.Upsert(a.withEphemeralContainers(p))
		a.states.apply(p.UID, awaitSource)
		if a.heldAtStart != nil { // else it may run
			a.publishSourceNotRead(p)
		}
	}
	a.handleAdditions(group, runs)
	if u.Unreadable {
		a.startRestored(group, u.Source)
	}
}

// ranAtStart reports whether a pod ran when the runtime was listed for the first time.
func (a *Agent) ranAtStart(uid pod.UID) bool {
	have := a.heldAtStart[uid]
	return have != nil && have.Running()
}

func (a *Agent) publishSourceNotRead(p *v1.Pod) {
	a.Statuses.Set(p.UID, v1.PodStatus{
		Phase: v1.PodPending, Reason: reasonSourceNotRead, ObservedGeneration: p.Generation,
		Message: "It is remembered from before the agent was restarted, and starts when its manifest was looked for",
	})
}

// startRestored decides on the remembered pods that wait for a source.
func (a *Agent) startRestored(group *run.Group, source string) {
	for _, p := range a.begunFirst(a.podsWith(waitingForSource)) {
		if pod.Source(p) == source {
			a.decideAfterWait(group, p)
		}
	}
}
