package agent

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// Every static pod that a source has is shown at the API server by a mirror pod,
// whatever becomes of it here: it may run, wait, have ended or have been rejected, and
// people want to see which. So it is the loop that asks for mirrors, and not the worker
// of a pod.
//
// A mirror stays for as long as anything is left of its pod. Who comes after a pod of
// the same name has its mirror after that one, as it runs after that one.

// tendMirrors sees to all mirrors. It costs nothing if they are as they should be, and
// so is called whenever they may not be.
func (a *Agent) tendMirrors() {
	leaving := map[string]bool{}
	for _, l := range a.workers.Lives() {
		if l.Removed {
			leaving[pod.FullName(l.Pod)] = true
		}
	}
	for _, p := range a.Desired.Pods() {
		if pod.IsStatic(p) && !leaving[pod.FullName(p)] {
			a.Upstream.Mirror(p)
		}
	}
	if !a.allReady() {
		return // who knows whose they are
	}
	for _, mirror := range a.Desired.OrphanedMirrors() {
		if !leaving[pod.FullName(mirror)] {
			a.Upstream.Unmirror(mirror)
		}
	}
}

// concernMirrors tells whether there are static pods, or mirrors of them, among pods.
func concernMirrors(pods []*v1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *v1.Pod) bool { return pod.IsStatic(p) || pod.IsMirror(p) })
}

// showOnMirror gives a mirror the status of its static pod.
func (a *Agent) showOnMirror(mirror *v1.Pod) {
	if static, ok := a.Desired.StaticOf(mirror); ok {
		a.Statuses.Tell(static.UID, func(s v1.PodStatus) { a.Upstream.Publish(static, s) })
	}
}

// Remirror has all mirrors seen to: the cluster has another Node of ours than before, or
// its first.
func (a *Agent) Remirror(ctx context.Context) { send(ctx, a.remirror, struct{}{}) }
