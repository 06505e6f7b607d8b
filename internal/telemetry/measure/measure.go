// Package measure implements the telemetry hooks of the packages that run pods. It hands each
// observation to metrics, the waterfalls of pods, and traces. It decides nothing, and no call of
// it blocks.
package measure

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/pods/probe"
	"berth/internal/runtime/image"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/trace"
	"berth/internal/telemetry/waterfall"
)

// Config configures a Recorder.
type Config struct {
	Metrics    *metrics.Metrics
	Waterfalls *waterfall.Recorder
	Tracer     *trace.Tracer // nil: nothing is traced
}

// Recorder implements the telemetry hooks.
type Recorder struct {
	Config
	relisted   atomic.Int64 // when the last list began, in nanoseconds since 1970
	terminated terminated
}

// New returns a Recorder.
func New(c Config) (*Recorder, error) {
	if c.Metrics == nil || c.Waterfalls == nil {
		return nil, errors.New("measure: metrics and waterfalls are required")
	}
	// A status has times in seconds.
	return &Recorder{Config: c, terminated: terminated{since: time.Now().Truncate(time.Second), byPod: map[pod.UID][]string{}}}, nil
}

// SyncStarted is the hook of worker.Config. The names are the kubelet's.
func (w *Recorder) SyncStarted(ctx context.Context, p *v1.Pod, phase worker.Phase) (context.Context, func(error)) {
	operation, span := "sync", "syncPod"
	switch phase {
	case worker.Terminating:
		operation, span = "kill", "syncTerminatingPod"
	case worker.Terminated:
		operation, span = "terminated", "syncTerminatedPod"
	}
	began := time.Now()
	ctx, end := w.Tracer.Begin(ctx, span, "k8s.pod.uid", string(p.UID), "k8s.pod.name", p.Name, "k8s.namespace.name", p.Namespace)
	return ctx, func(err error) {
		end(err)
		w.Metrics.WorkerSynced(operation, time.Since(began))
	}
}

// Restarted is the hook of worker.Config.
func (w *Recorder) Restarted(p *v1.Pod) { w.Metrics.Restarted(pod.IsStatic(p)) }

// Call is the hook of cri.Config.
func (w *Recorder) Call(ctx context.Context, operation string) (context.Context, func(error)) {
	began := time.Now()
	ctx, end := w.Tracer.Within(ctx, "runtime."+operation)
	return w.Tracer.Outgoing(ctx), func(err error) {
		end(err)
		w.Metrics.Call(operation, time.Since(began), err)
	}
}

// Relisted is the hook of observe.Config.
func (w *Recorder) Relisted(at time.Time, took time.Duration) {
	var after time.Duration
	if before := w.relisted.Swap(at.UnixNano()); before != 0 {
		after = at.Sub(time.Unix(0, before))
	}
	w.Metrics.Relisted(at, took, after)
}

// Pulled returns the hook of image.Config. size returns how many bytes an image has. As
// a pull may serve many pods, it is no part of anybody's trace.
func (w *Recorder) Pulled(
	size func(ctx context.Context, image string) (uint64, error),
) func(ctx context.Context, image string, took time.Duration, err error) {
	return func(ctx context.Context, image string, took time.Duration, err error) {
		if err != nil {
			return
		}
		bytes, err := size(ctx, image)
		if err != nil {
			bytes = 0 // not known
		}
		w.Metrics.ImagePulled(bytes, took)
	}
}

// Waterfall is how the start of a pod went, for the local API. It is false if there
// is nothing to record.
func (w *Recorder) Waterfall(uid pod.UID) (api.Waterfall, bool) {
	fall, ok := w.Waterfalls.Get(uid)
	out := api.Waterfall{Seen: fall.Seen, Done: fall.Done, Phases: []api.Phase{}}
	for _, span := range fall.Spans {
		phase := api.Phase{Name: span.Phase, Container: span.Container, Start: span.Start}
		if !span.End.IsZero() {
			phase.End = &span.End
		}
		out.Phases = append(out.Phases, phase)
	}
	return out, ok
}

// Probed is the hook of probe.Config.
func (w *Recorder) Probed(p *v1.Pod, container, kind string, result probe.Outcome, took time.Duration) {
	w.Metrics.Probed(metrics.Probe{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name, Container: container, Kind: kind, Result: string(result), Took: took,
	})
}

// Cgroup begins an operation on the cgroup of a pod (create, update or destroy). The returned function
// ends it.
func (w *Recorder) Cgroup(operation string) func() {
	began := time.Now()
	return func() { w.Metrics.Cgroup(operation, time.Since(began)) }
}

// Updated counts the updates of a source.
func (w *Recorder) Updated(source string, op pod.Op, pods int) {
	w.Metrics.Updated(source, op.String(), pods)
}

// Rejected counts a pod that may not run here.
func (w *Recorder) Rejected(reason string) { w.Metrics.Rejected(reason) }

// Preempted counts pods that make room for another.
func (w *Recorder) Preempted(victims int) { w.Metrics.Preempted(victims) }

// Orphaned counts a pod that no source has.
func (w *Recorder) Orphaned() { w.Metrics.Orphaned() }

// OrphansCleaned sets how many orphans are cleaned up.
func (w *Recorder) OrphansCleaned(pods, failed int) { w.Metrics.OrphansCleaned(pods, failed) }

// ImageEnsured is the hook of image.Config.
func (w *Recorder) ImageEnsured(policy v1.PullPolicy, present, pull *bool) {
	w.Metrics.ImageEnsured(string(policy), present, pull)
}

// ImageAccessChecked is the hook of image.Config.
func (w *Recorder) ImageAccessChecked(v image.Verdict) { w.Metrics.ImageAccessChecked(string(v)) }
