package plan

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// simulation is a desired pod and a simulated runtime.
type simulation struct {
	start time.Time
	at    time.Duration // what the clock shows, counted from start
	ticks time.Duration // nothing happens at the same moment as something else

	want *v1.Pod
	have pod.Observed
	past map[string]bool // by id: what is of an earlier life
	ids  int
}

func newSimulation() *simulation {
	return &simulation{start: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (w *simulation) now() time.Time { return w.start.Add(w.at + w.ticks) }

func (w *simulation) tick() time.Time {
	w.ticks++
	return w.now()
}

func (w *simulation) next() Plan {
	return Next(w.want, MarkPreviousLife(w.want, w.have, w.past), DefaultBackoff, w.now())
}

// live begins a new life of the pod.
func (w *simulation) live() {
	w.past = map[string]bool{}
	for _, s := range w.have.Sandboxes {
		w.past[s.ID] = true
	}
	for _, c := range w.have.Containers {
		w.past[c.ID] = true
	}
}

// do performs one action as a runtime without faults would. Containers that are
// stopped end with that code.
func (w *simulation) do(a Action, stopCode int32) {
	switch a := a.(type) {
	case StopSandbox:
		w.stopSandbox(a.ID, stopCode)
	case StopContainer:
		if c := w.byID(a.ID); c != nil && c.MayRun() {
			w.end(c, stopCode)
		}
	case DropContainer:
		w.remove(a.ID)
	case CreateSandbox:
		w.makeSandbox(a, pod.SandboxReady)
	case StartContainer:
		c := w.makeContainer(a)
		c.State, c.StartedAt = pod.ContainerRunning, w.tick()
	case RemoveContainer:
		w.remove(a.ID)
	case RemoveSandbox:
		w.have.Sandboxes = slices.DeleteFunc(w.have.Sandboxes, func(s pod.Sandbox) bool { return s.ID == a.ID })
	}
}

// begin performs an action up to the middle, where the agent died.
func (w *simulation) begin(a Action) {
	switch a := a.(type) {
	case CreateSandbox:
		w.makeSandbox(a, pod.SandboxNotReady)
	case StartContainer:
		w.makeContainer(a)
	}
}

func (w *simulation) makeSandbox(a CreateSandbox, state pod.SandboxState) {
	s := pod.Sandbox{ID: fmt.Sprintf("s%d", a.Attempt), Attempt: a.Attempt, State: state, Hash: a.Hash, CreatedAt: w.tick()}
	w.have.Sandboxes = append([]pod.Sandbox{s}, w.have.Sandboxes...)
	w.have.CgroupGone = false // it is made before the sandbox
}

func (w *simulation) makeContainer(a StartContainer) *pod.Container {
	w.ids++
	w.add(pod.Container{
		ID: fmt.Sprintf("%s%d", a.Name, w.ids), Name: a.Name, SandboxID: w.have.Sandboxes[0].ID, State: pod.ContainerCreated,
		Hash: a.Hash, Round: a.Round, Attempt: a.Attempt, RestartCount: a.RestartCount, Backoff: a.Backoff, CreatedAt: w.tick(),
	})
	return &w.have.Containers[0]
}

func (w *simulation) add(c pod.Container) {
	w.have.Containers = append([]pod.Container{c}, w.have.Containers...)
}

func (w *simulation) remove(id string) {
	w.have.Containers = slices.DeleteFunc(w.have.Containers, func(c pod.Container) bool { return c.ID == id })
}

func (w *simulation) byID(id string) *pod.Container {
	for i := range w.have.Containers {
		if w.have.Containers[i].ID == id {
			return &w.have.Containers[i]
		}
	}
	return nil
}

func (w *simulation) end(c *pod.Container, code int32) {
	c.State, c.ExitCode, c.FinishedAt = pod.ContainerExited, code, w.tick()
}

// stopSandbox ends a sandbox, and the containers in it.
func (w *simulation) stopSandbox(id string, code int32) {
	for i := range w.have.Containers {
		if c := &w.have.Containers[i]; c.SandboxID == id && c.MayRun() {
			w.end(c, code)
		}
	}
	w.killSandbox(id)
}

// killSandbox ends a sandbox and nothing else.
func (w *simulation) killSandbox(id string) {
	for i := range w.have.Sandboxes {
		if w.have.Sandboxes[i].ID == id {
			w.have.Sandboxes[i].State = pod.SandboxNotReady
		}
	}
}
