package agent

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// A rejection is final for a pod of an API server: its controller creates another one. No
// controller does so for a static pod, and what it lacked may be there later: a port, or room.
// So a rejected static pod is checked again after the status of any pod changed, as it does at
// the pod's end, and with each housekeeping, since the Node may have changed.

// rejectedRetryInterval is the least time between two checks of the rejected static pods.
const rejectedRetryInterval = 100 * time.Millisecond

// reasonAdmitted is the reason of the event of a pod that is admitted after a rejection.
const reasonAdmitted = "Admitted"

// rejectedStatic returns the rejected static pods, the oldest first.
func (a *Agent) rejectedStatic() []*v1.Pod {
	var out []*v1.Pod
	for _, p := range a.podsWith(rejected) {
		if pod.IsStatic(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(x, y *v1.Pod) int { return cmp.Compare(x.UID, y.UID) })
	return oldestFirst(out)
}

// retryRejected admits the static pods that would no longer be rejected.
func (a *Agent) retryRejected(group *run.Group) {
	if a.hold != nil {
		return
	}
	for _, p := range a.rejectedStatic() {
		d, _ := a.admit(p)
		if d.Reject == nil {
			d.Reject = a.checkLeaving(p)
		}
		if d.Reject != nil {
			a.publishRejection(p, d.Reject)
			continue
		}
		a.Log.Info("a pod that was rejected is admitted", "pod", pod.Ref(p), "uid", p.UID)
		a.Events.Record(p, v1.EventTypeNormal, reasonAdmitted, "What kept the pod from running has passed")
		s := v1.PodStatus{Phase: v1.PodPending, ObservedGeneration: p.Generation}
		a.Statuses.Set(p.UID, s)
		a.Upstream.Publish(p, s)
		a.decideBy(group, p, true)
		a.updateView(p)
	}
}

// publishRejection publishes why a pod is still rejected, if that has changed.
func (a *Agent) publishRejection(p *v1.Pod, r *admit.Rejection) {
	s := status.Failed(p, r.Reason, r.Message, time.Now())
	if was, _ := a.Statuses.Get(p.UID); was.Reason != s.Reason || was.Message != s.Message {
		a.Statuses.Set(p.UID, s)
		a.Upstream.Publish(p, s)
	}
}

// checkLeaving returns why a pod does not fit beside the pods that were removed but still run, or
// nil if it fits.
func (a *Agent) checkLeaving(p *v1.Pod) *admit.Rejection {
	now, _ := a.tenants(p)
	leaving := false
	for _, l := range a.workers.Lives() {
		if l.Removed && l.Phase < worker.Terminated {
			now = append(now, l.Pod)
			leaving = true
		}
	}
	if !leaving {
		return nil
	}
	return admit.Check(p, now, a.Node())
}
