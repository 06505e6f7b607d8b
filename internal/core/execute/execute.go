// Package execute performs the sync, the stop and the cleanup of a pod, each a list of steps (see
// steps.go), and publishes the pod's status on the way. A worker calls it once per turn.
//
// A sync completes the observation of the runtime with what only this agent knows (results of probes,
// hooks that run, a previous life, a cgroup that vanished), lets package plan decide on it, and performs the actions.
//
// Every step can be repeated: it looks at what is there first. What the Executor
// remembers of a pod is what the runtime can't tell (see memory.go). It retries
// nothing: a step that fails ends the sync, and the worker comes back.
package execute

import (
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// Executor performs the steps of all pods. Each pod has one worker, which calls nothing at the same
// time, so the memory of a pod needs no lock.
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

// node returns the facts of the machine for a sandbox or a container that is made now.
func (e *Executor) node() render.Node {
	n := e.Node
	n.CgroupDriver = e.Host.CgroupDriver()
	if n.MemoryQoS != nil {
		memory := e.Host.Allocatable()[v1.ResourceMemory]
		n.AllocatableMemory = memory.Value()
	}
	return n
}

// publish derives the status of a pod, stores it, and passes it on if it has changed.
func (e *Executor) publish(in status.Input) v1.PodStatus {
	m := e.memories.get(in.Pod.UID)
	in.Waiting, in.Termination, in.Stopping = m.waiting, m.termination.reason, m.termination.progress()
	in.Observed = e.withTerminationMessages(in.Pod, e.withHealth(m.withPostStarts(in.Observed)), m)
	in.HostIPs, in.Runtime, in.Now = e.Host.IPs(), e.RuntimeInfo.Name(), time.Now()
	if before, ok := e.Reports.Statuses.Get(in.Pod.UID); ok {
		in.Previous = &before
	}
	s := status.Derive(in)
	e.recordHostFamily(in.Pod, in.Previous, s.HostIP)
	if e.Reports.Statuses.Set(in.Pod.UID, s) {
		e.Reports.Upstream.Publish(in.Pod, s)
		e.Reports.Telemetry.StatusChanged(in.Pod, &s)
	}
	return s
}

// withHealth adds the results of probes to an observation.
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
