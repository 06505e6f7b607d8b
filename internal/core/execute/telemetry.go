package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Telemetry measures and traces the work on pods. No method blocks, and nothing depends on it.
type Telemetry interface {
	// Step begins a step of a sync. The step is performed in the returned context; the returned
	// function ends it.
	Step(ctx context.Context, p *v1.Pod, step string) (context.Context, func(error))
	// Starting is called in each sync that brings a pod up.
	Starting(p *v1.Pod)
	// Phase begins a phase of a pod's start, named as in package waterfall. The argument what is
	// the container, or the handler of a sandbox. The returned function ends the phase; one that
	// goes on is begun again in the next sync.
	Phase(p *v1.Pod, phase, what string) func(error)
	// StartFailed counts a container that could not be started.
	StartFailed(p *v1.Pod, container, reason string)
	// Rejected counts a pod that can't run on this node.
	Rejected(reason string)
	// StatusChanged is called with every new status of a pod.
	StatusChanged(p *v1.Pod, s *v1.PodStatus)
	// Gone is called when nothing of a pod is left, or a new life of it begins.
	Gone(uid pod.UID)
}

// noTelemetry measures nothing.
type noTelemetry struct{}

func (noTelemetry) Step(ctx context.Context, _ *v1.Pod, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}
func (noTelemetry) Starting(*v1.Pod)                          {}
func (noTelemetry) Phase(*v1.Pod, string, string) func(error) { return func(error) {} }
func (noTelemetry) StartFailed(*v1.Pod, string, string)       {}
func (noTelemetry) Rejected(string)                           {}
func (noTelemetry) StatusChanged(*v1.Pod, *v1.PodStatus)      {}
func (noTelemetry) Gone(pod.UID)                              {}
