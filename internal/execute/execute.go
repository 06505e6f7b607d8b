// Package execute does what was decided: it performs the steps of a pod's sync,
// its stop and its end, and publishes the pod's status on the way.
//
// Every step can be done again: it looks at what is there first. The Executor
// remembers, per pod, only why its containers could not be started; all else is
// in the runtime. It retries nothing: a step that fails ends the sync, and the
// worker comes back.
package execute

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/image"
	"berth/internal/plan"
	"berth/internal/pod"
	"berth/internal/render"
	"berth/internal/status"
)

// Runtime is what the executor needs of a runtime.
type Runtime interface {
	Ready(ctx context.Context) error
	RunSandbox(ctx context.Context, config *render.SandboxConfig) (string, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
	CreateContainer(ctx context.Context, sandbox string, config *render.ContainerConfig, in *render.SandboxConfig) (string, error)
	StartContainer(ctx context.Context, id string) error
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
}

// Images says how things stand with an image.
type Images interface {
	Ensure(ctx context.Context, uid pod.UID, c *v1.Container) image.State
	Release(uid pod.UID)
}

// Config is what an Executor is made of.
type Config struct {
	Runtime  Runtime
	Images   Images
	Statuses *status.Store
	Slots    *Slots
	Log      *slog.Logger
	Node     render.Node
	HostIPs  []string
	PodsDir  string // holds a directory of data for each pod
	Backoff  plan.Backoff
	// RemoveCgroup removes the cgroup of a pod that has no process left.
	RemoveCgroup func(ctx context.Context, path string) error
	// Mounted returns a mount at or below a directory, or "".
	Mounted func(dir string) (string, error)
	// Explain turns an error of the runtime into words for a status.
	Explain func(error) string
	// Forget is told that nothing of a pod is left.
	Forget func(pod.UID)
}

// Executor performs the steps of all pods. Each pod's are performed by one
// worker, so nothing here needs to be locked but the table of notes.
type Executor struct {
	Config

	mu    sync.Mutex
	notes map[pod.UID]map[string]status.Note
}

// New returns an executor.
func New(c Config) (*Executor, error) {
	if c.Runtime == nil || c.Images == nil || c.Statuses == nil || c.Slots == nil || c.Log == nil {
		return nil, errors.New("execute: runtime, images, statuses, slots and log are required")
	}
	if c.RemoveCgroup == nil || c.Mounted == nil || c.Explain == nil || c.Forget == nil {
		return nil, errors.New("execute: removeCgroup, mounted, explain and forget are required")
	}
	if c.PodsDir == "" || c.Node.LogsDir == "" {
		return nil, errors.New("execute: the directories of pods and logs are required")
	}
	if err := c.Backoff.Validate(); err != nil {
		return nil, err
	}
	return &Executor{Config: c, notes: map[pod.UID]map[string]status.Note{}}, nil
}

// publish derives the status of a pod and stores it for its readers.
func (e *Executor) publish(p *v1.Pod, have pod.Observed, notes map[string]status.Note, finished bool) {
	in := status.Input{
		Pod: p, Have: have, Notes: notes, HostIPs: e.HostIPs, Finished: finished, Now: time.Now(),
	}
	if before, ok := e.Statuses.Get(p.UID); ok {
		in.Before = &before
	}
	e.Statuses.Set(p.UID, status.Derive(in))
}

func (e *Executor) remember(uid pod.UID, notes map[string]status.Note) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(notes) == 0 {
		delete(e.notes, uid)
		return
	}
	e.notes[uid] = notes
}

// remembered returns the notes on those containers that the plan still wants to
// start, together with what the plan itself says of the others.
func (e *Executor) remembered(uid pod.UID, p plan.Plan) map[string]status.Note {
	e.mu.Lock()
	defer e.mu.Unlock()
	notes := map[string]status.Note{}
	for _, a := range p.Actions {
		if start, ok := a.(plan.StartContainer); ok {
			if note, ok := e.notes[uid][start.Name]; ok {
				notes[start.Name] = note
			}
		}
	}
	for _, w := range p.Waits {
		notes[w.Container] = status.Note{Reason: w.Reason, Message: w.Message}
	}
	return notes
}
