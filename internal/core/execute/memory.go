package execute

import (
	"sync"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
)

// memory is what the executor remembers of a pod between two turns of its worker, because the
// runtime can't tell it. A restarted agent begins with an empty one.
type memory struct {
	mu sync.Mutex // guards preStopsRun: the containers of a pod are stopped at the same time

	waiting             map[string]status.WaitingReason // by container: why it does not run
	termination         termination                     // how far the stop of the pod has come
	preStopsRun         map[string]bool                 // by container id: its preStop hook was run
	terminationMessages map[string]string               // by container id

	// postStarts are the postStart hooks that did not end yet, by container id. Nil: not read yet.
	postStarts map[string]*postStart

	// toRestart are the containers that were stopped in order to run again, by id. Nil: not read yet.
	toRestart map[string]bool

	cgroupMade       bool            // this agent made the cgroup of the pod, or renewed its limits
	previousLife     map[string]bool // by id: a sandbox or container of an earlier life; nil: not read yet
	stoppedSandboxes map[string]bool // by id: it was stopped, and has given back its address and ports
}

// memories holds the memory of every pod. Only the worker of a pod reads and changes it.
type memories struct {
	mu   sync.Mutex
	pods map[pod.UID]*memory
}

func (m *memories) get(uid pod.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == nil {
		m.pods[uid] = &memory{
			waiting: map[string]status.WaitingReason{}, preStopsRun: map[string]bool{}, terminationMessages: map[string]string{},
			stoppedSandboxes: map[string]bool{},
		}
	}
	return m.pods[uid]
}

func (m *memories) forget(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// terminate moves the termination of the pod on.
func (m *memory) terminate(e terminationEvent) { m.termination = m.termination.on(e) }

// refreshWaiting drops the waiting reasons of containers that the plan no longer starts, and adds
// those that the plan and the postStart hooks have for others.
func (m *memory) refreshWaiting(p plan.Plan, have pod.Observed) {
	reasons := map[string]status.WaitingReason{}
	for _, a := range p.Actions {
		if start, ok := a.(plan.StartContainer); ok {
			if reason, ok := m.waiting[start.Name]; ok {
				reasons[start.Name] = reason
			}
		}
	}
	for _, c := range have.Containers {
		if c.Starting {
			reasons[c.Name] = m.postStarts[c.ID].waiting
		}
	}
	for _, w := range p.Waits {
		reasons[w.Container] = status.WaitingReason{Reason: w.Reason, Message: w.Message}
	}
	m.waiting = reasons
}

// claimPreStop reports whether the preStop hook of a container was not run yet, and marks it as run.
func (m *memory) claimPreStop(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.preStopsRun[id] {
		return false
	}
	m.preStopsRun[id] = true
	return true
}

// forgetPreStop lets the preStop hook of a container be run again.
func (m *memory) forgetPreStop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.preStopsRun, id)
}
