package measure

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/waterfall"
)

// These methods implement execute.Telemetry.

// Step begins a step of a sync.
func (w *Recorder) Step(ctx context.Context, _ *v1.Pod, step string) (context.Context, func(error)) {
	return w.Tracer.Within(ctx, step)
}

// Starting is called for each sync that brings a pod up.
func (w *Recorder) Starting(p *v1.Pod) {
	seen := pod.FirstSeen(p)
	if !w.Waterfalls.Open(p.UID, seen) {
		return
	}
	w.Metrics.PodSeen(len(p.Spec.Containers))
	if !seen.IsZero() {
		w.Metrics.WorkerStarted(time.Since(seen))
	}
}

// Phase begins a phase of a pod's start.
func (w *Recorder) Phase(p *v1.Pod, phase, what string) func(error) {
	began := time.Now()
	container := what
	if phase == waterfall.Sandbox {
		container = ""
	}
	if phase == waterfall.Create {
		w.Metrics.ContainerStarted(kindOf(p, container))
	}
	w.Waterfalls.Begin(p.UID, phase, container, began)
	return func(err error) {
		now := time.Now()
		took, first := w.Waterfalls.End(p.UID, phase, container, now)
		if first && err == nil {
			w.Metrics.Phase(phase, took)
		}
		switch {
		case phase == waterfall.Sandbox:
			w.Metrics.Sandbox(what, render.OwnUsers(p), now.Sub(began), err)
		case phase == waterfall.Create:
			w.countImageVolumes(p, container, err)
		case phase == waterfall.Queue && err == nil:
			w.Metrics.SlotAcquired(now.Sub(began))
		}
	}
}

// StartFailed is called for a container that could not be started.
func (w *Recorder) StartFailed(p *v1.Pod, container, reason string) {
	w.Metrics.ContainerFailed(kindOf(p, container), reason)
}

// kindOf returns the kubelet's metric label for the kind of a container.
func kindOf(p *v1.Pod, container string) string {
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == container {
			return "ephemeral_container"
		}
	}
	if pod.IsInit(p, container) {
		return "init_container"
	}
	return "container"
}

// StatusChanged is called with every new status of a pod. The start of a pod is over when the pod
// is ready, or has ended.
func (w *Recorder) StatusChanged(p *v1.Pod, s *v1.PodStatus) {
	w.countTerminated(p, s)
	ended := s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed
	if !ended && !isReady(s) {
		return
	}
	now := time.Now()
	fall, first := w.Waterfalls.Finish(p.UID, now)
	if !first || s.Phase == v1.PodFailed {
		return
	}
	for _, span := range fall.Spans {
		if span.Phase == waterfall.Ready {
			w.Metrics.Phase(waterfall.Ready, span.End.Sub(span.Start))
		}
	}
	w.started(p, fall)
}

// started measures a start from end to end. What counts for the SLI leaves out
// pulls, and pods that first have other things to run.
func (w *Recorder) started(p *v1.Pod, fall waterfall.Waterfall) {
	var up time.Time
	var pulls time.Duration
	for _, span := range fall.Spans {
		switch span.Phase {
		case waterfall.Start:
			up = span.End // the last one
		case waterfall.Pull:
			pulls = max(pulls, span.End.Sub(span.Start))
		}
	}
	if up.IsZero() || fall.Seen.IsZero() {
		return
	}
	sinceCreated, sli := time.Duration(-1), time.Duration(-1)
	if !p.CreationTimestamp.IsZero() {
		sinceCreated = max(0, up.Sub(p.CreationTimestamp.Time))
		if len(p.Spec.InitContainers) == 0 {
			sli = max(0, sinceCreated-pulls)
		}
	}
	w.Metrics.PodStarted(up.Sub(fall.Seen), sinceCreated, sli)
}

func isReady(s *v1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// Gone is called when nothing of a pod is left.
func (w *Recorder) Gone(uid pod.UID) {
	w.Waterfalls.Forget(uid)
	w.terminated.forget(uid)
	w.Metrics.Forget(uid)
}
