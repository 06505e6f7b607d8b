// Package execute does what was decided: it performs the steps of a pod's sync,
// its stop and its end, and publishes the pod's status on the way.
//
// Every step can be done again: it looks at what is there first. What the Executor
// remembers of a pod is what the runtime can't tell (see memory.go). It retries
// nothing: a step that fails ends the sync, and the worker comes back.
package execute

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"path/filepath"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
)

// Executor performs the steps of all pods. Each pod's are performed by one
// worker, so nothing of a pod needs to be locked.
type Executor struct {
	Config
	memories memories
}

// New returns an executor.
func New(c Config) (*Executor, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	return &Executor{Config: c, memories: memories{pods: map[pod.UID]*memory{}}}, nil
}

// publish derives the status of a pod and stores it for its readers.
func (e *Executor) publish(in status.Input) v1.PodStatus {
	m := e.memories.get(in.Pod.UID)
	in.Waiting, in.Termination, in.Stopping = m.waiting, m.termination.reason, m.termination.progress()
	in.Observed = e.withTerminationMessages(in.Pod, e.withHealth(m.withPostStarts(in.Observed)), m)
	in.HostIPs, in.Runtime, in.Now = e.Host.IPs(), e.RuntimeInfo.Name(), time.Now()
	if before, ok := e.Reports.Statuses.Get(in.Pod.UID); ok {
		in.Previous = &before
	}
	s := status.Derive(in)
	if e.Reports.Statuses.Set(in.Pod.UID, s) {
		e.Reports.Upstream.Publish(in.Pod, s)
		e.Reports.Telemetry.Shown(in.Pod, &s)
	}
	return s
}

// withHealth adds what probes know to what the runtime knows.
func (e *Executor) withHealth(have pod.Observed) pod.Observed {
	have.Containers = slices.Clone(have.Containers)
	for i := range have.Containers {
		if c := &have.Containers[i]; c.State == pod.ContainerRunning {
			c.Health = e.Probes.Health(c.ID)
		}
	}
	return have
}

func (e *Executor) podDir(uid pod.UID) string { return filepath.Join(e.Host.PodsDir, string(uid)) }
