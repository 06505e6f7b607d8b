package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Telemetry is told what is done for a pod while it is done: by it, people can see
// and measure. None of it blocks, and nothing depends on it.
type Telemetry interface {
	// Step begins a step of a sync or of a stop, in whose context all of it is done.
	// What it returns ends it.
	Step(ctx context.Context, p *v1.Pod, step string) (context.Context, func(error))
	// Starting is told of each sync that brings a pod up.
	Starting(p *v1.Pod)
	// Phase begins a phase of a pod's start (they are named as in package waterfall).
	// What is the container, or the handler of a sandbox. What it returns ends it; a
	// phase that goes on is begun again in the next sync.
	Phase(p *v1.Pod, phase, what string) func(error)
	// StartFailed is told of a container that could not be started.
	StartFailed(p *v1.Pod, container, reason string)
	// Shown is told every status that is new.
	Shown(p *v1.Pod, s *v1.PodStatus)
	// Gone is told that nothing of a pod is left.
	Gone(uid pod.UID)
}

// noTelemetry watches.
type noTelemetry struct{}

func (noTelemetry) Step(ctx context.Context, _ *v1.Pod, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}
func (noTelemetry) Starting(*v1.Pod)                          {}
func (noTelemetry) Phase(*v1.Pod, string, string) func(error) { return func(error) {} }
func (noTelemetry) StartFailed(*v1.Pod, string, string)       {}
func (noTelemetry) Shown(*v1.Pod, *v1.PodStatus)              {}
func (noTelemetry) Gone(pod.UID)                              {}
