package agent

import "berth/internal/lib/pod"

// admission is what the loop has decided about a pod of the desired set, or what that
// decision waits for:
//
//	                 await…, hold                   deletePod
//	          ┌─────────────────────▶ waitingFor… ─────────────▶ deletedUnadmitted
//	          │◀─────────────────────    ▲
//	          │      reconsider          │ hold
//	          │                          │
//	          │      admitPod            │          preempt
//	undecided ├─────────────────────▶ admitted ────────────────▶ preempted
//	          │
//	          │      reject
//	          ├─────────────────────▶ rejected
//	          │◀─────────────────────
//	                 reconsider
//
// waitingFor… are six states, one for each thing that a pod can wait for. One of them leads to
// another: waitingForNode becomes waitingForRead when a read of the Node begins. A pod that
// waits for the runtime stays there if it is deleted, and a preempted pod, too, can be held
// back. A pod that no source has any more has no state.
type admission int

const (
	// undecided is a new pod, or one that is about to be decided on. Mirror pods stay undecided.
	undecided         admission = iota
	waitingForRuntime           // the runtime was not listed yet
	waitingForSource            // the pod is remembered, and its source was not read yet
	waitingForNode              // the Node is to be read again before the pod is rejected
	waitingForRead              // that read of the Node is in progress
	waitingForRoom              // other pods have to end first
	waitingForResume            // the node is drained, or shuts down
	admitted                    // handed to the workers
	preempted                   // admitted, and ended to make room for a critical pod
	rejected                    // Failed; a static pod is reconsidered
	deletedUnadmitted           // deleted while it waited: handed to the workers only to be released
	admissions                  // the number of states
)

func (a admission) String() string {
	return [...]string{
		"undecided", "waitingForRuntime", "waitingForSource", "waitingForNode", "waitingForRead", "waitingForRoom",
		"waitingForResume", "admitted", "preempted", "rejected", "deletedUnadmitted",
	}[a]
}

// waits reports whether admission decides on the pod later.
func (a admission) waits() bool { return a >= waitingForRuntime && a <= waitingForResume }

// withoutWorker reports whether the loop, and not a worker, publishes the status of the pod.
func (a admission) withoutWorker() bool { return a.waits() || a == rejected }

// hasRoom reports whether the pod was given room beside the others.
func (a admission) hasRoom() bool { return a == admitted || a == preempted }

// podState is what the loop remembers of one pod. It is a value: on returns the next one.
type podState struct {
	admission admission
	// revived says that the pod began a new life, and that its status may still be the one
	// that the life before ended with. It is set for admitted pods only, and beside admission
	// because a revived pod may be held back before it has a status.
	revived bool
}

// event is what happens to a pod in the loop. The await events are decisions to wait for the thing
// that they name.
type event int

const (
	awaitRuntime event = iota
	awaitSource
	awaitNode
	readNode // a read of the Node begins
	awaitRoom
	hold // the node is drained: the pod does not start
	admitPod
	reject
	preempt
	deletePod  // the API server has it with a deletionTimestamp
	reconsider // what the pod waited for, or was rejected for, may have passed
	revive     // its worker begins a new life
	settle     // the status is that of the new life, or the new life has ended
	events     // the number of events
)

func (e event) String() string {
	return [...]string{
		"awaitRuntime", "awaitSource", "awaitNode", "readNode", "awaitRoom", "hold", "admitPod", "reject", "preempt",
		"deletePod", "reconsider", "revive", "settle",
	}[e]
}

// on returns the state after an event. An event that the drawing does not have in a state
// changes nothing.
func (s podState) on(e event) podState {
	was := s.admission
	switch e {
	case awaitRuntime:
		return s.decide(waitingForRuntime)
	case awaitSource:
		return s.decide(waitingForSource)
	case awaitNode:
		return s.decide(waitingForNode)
	case awaitRoom:
		return s.decide(waitingForRoom)
	case admitPod:
		return s.decide(admitted)
	case reject:
		return s.decide(rejected)
	case hold:
		if was.hasRoom() {
			s.admission = waitingForResume
		}
		return s.decide(waitingForResume)
	case readNode:
		if was == waitingForNode {
			s.admission = waitingForRead
		}
	case preempt:
		if was == admitted {
			s.admission = preempted
		}
	case deletePod:
		if was.waits() && was != waitingForRuntime { // after the first list it is decided on as deleted
			s.admission = deletedUnadmitted
		}
	case reconsider:
		if was.withoutWorker() {
			s.admission = undecided
		}
	case revive:
		s.revived = s.revived || was == admitted
	case settle:
		s.revived = false
	}
	return s
}

// decide ends undecided.
func (s podState) decide(next admission) podState {
	if s.admission == undecided {
		s.admission = next
	}
	return s
}

// podStates holds the state of each pod of the desired set that is decided on. Only the loop
// uses it.
type podStates struct {
	byUID   map[pod.UID]podState
	counts  [admissions]int // of pods, by admission; not kept for undecided
	changed func(pod.UID)   // called after each change
}

func newPodStates(changed func(pod.UID)) *podStates {
	return &podStates{byUID: map[pod.UID]podState{}, changed: changed}
}

func (s *podStates) get(uid pod.UID) podState { return s.byUID[uid] }

func (s *podStates) admission(uid pod.UID) admission { return s.byUID[uid].admission }

// apply changes the state of a pod by an event.
func (s *podStates) apply(uid pod.UID, e event) { s.set(uid, s.byUID[uid].on(e)) }

// remove forgets a pod that no source has any more.
func (s *podStates) remove(uid pod.UID) { s.set(uid, podState{}) }

// set is the only place that writes a state.
func (s *podStates) set(uid pod.UID, after podState) {
	before := s.byUID[uid]
	if after == before {
		return
	}
	if after == (podState{}) {
		delete(s.byUID, uid)
	} else {
		s.byUID[uid] = after
	}
	s.counts[before.admission]--
	s.counts[after.admission]++
	s.changed(uid)
}
