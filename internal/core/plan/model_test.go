package plan

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// model follows a simulation and knows the whole past of the pod, also containers that the runtime
// no longer has. It judges plans by that.
type model struct {
	w *simulation

	seen      map[string]bool // dead containers that were taken note of
	lived     map[string]bool // names of which one ran
	done      map[string]bool // init containers that succeeded since the pod last began
	final     map[string]bool // main containers that will not run again
	failed    string          // the init container that failed for good
	rounds    int             // how often all were asked to restart
	planned   int             // how often that was so when the last plan was made
	old       map[string]bool // containers that were there before, or on their way
	replacing map[string]bool // names of which one is on its way
}

func newModel(w *simulation) *model {
	return &model{
		w: w, seen: map[string]bool{}, lived: map[string]bool{}, done: map[string]bool{}, final: map[string]bool{},
		old: map[string]bool{},
	}
}

// note records the containers that ended, in the order of their ends.
func (m *model) note() {
	var ended []pod.Container
	for _, c := range m.w.have.Containers {
		if c.State == pod.ContainerExited && !m.seen[c.ID] {
			ended = append(ended, c)
		}
	}
	slices.SortFunc(ended, func(a, b pod.Container) int { return a.FinishedAt.Compare(b.FinishedAt) })
	for _, c := range ended {
		m.seen[c.ID] = true
		m.exited(&c)
	}
}

func (m *model) exited(c *pod.Container) {
	if m.over() || m.old[c.ID] || pod.IsEphemeral(m.w.want, c.Name) {
		return
	}
	spec := pod.ContainerSpec(m.w.want, c.Name)
	verdict := verdictOn(m.w.want, spec, c)
	switch {
	case m.replacing[c.Name]: // its end means nothing, the next one is under way
	case verdict == restartAll:
		m.rounds++
		for _, c := range m.w.have.Containers {
			m.old[c.ID] = true
		}
		clear(m.done)
		clear(m.final)
	case m.initPlace(c.Name) >= 0:
		m.done[c.Name] = c.ExitCode == 0
		if c.ExitCode != 0 && verdict == final {
			m.failed = c.Name
		}
	default:
		m.final[c.Name] = verdict == final
	}
}

// over reports whether nothing of the pod will run again.
func (m *model) over() bool {
	return m.failed != "" || !slices.ContainsFunc(m.w.want.Spec.Containers, func(c v1.Container) bool { return !m.final[c.Name] })
}

// applying records actions that are about to be performed.
func (m *model) applying(actions []Action) {
	m.replacing = map[string]bool{}
	for _, a := range actions {
		if start, ok := a.(StartContainer); ok {
			m.replacing[start.Name] = true
		}
	}
}

// did records an action that was performed.
func (m *model) did(a Action) {
	m.began(a)
	if start, ok := a.(StartContainer); ok {
		m.lived[start.Name] = true
	}
}

// began records an action that was performed at least in part.
func (m *model) began(a Action) {
	m.note()
	switch a := a.(type) {
	case CreateSandbox:
		clear(m.done)
	case DropContainer:
		m.reconsider() // what was to follow a dead one is gone
	case StartContainer:
		m.old[m.w.have.Containers[0].ID] = m.planned < m.rounds
		m.replacing[a.Name] = false
	}
}

// reconsider determines again how the newest dead containers ended.
func (m *model) reconsider() {
	for _, spec := range slices.Concat(m.w.want.Spec.InitContainers, m.w.want.Spec.Containers) {
		c := m.w.have.Container(spec.Name)
		if c != nil && c.State == pod.ContainerExited && (m.initPlace(spec.Name) < 0 || m.here(spec.Name) != nil || c.ExitCode != 0) {
			m.seen[c.ID] = false
		}
	}
	m.note()
}

// restartingAll reports whether a container is still to be restarted with all others.
func (m *model) restartingAll() bool {
	return slices.ContainsFunc(slices.Concat(m.w.want.Spec.InitContainers, m.w.want.Spec.Containers), func(spec v1.Container) bool {
		c := m.w.have.Container(spec.Name)
		return c != nil && m.old[c.ID]
	})
}

// initPlace is the place of an init container that is not a sidecar, or -1.
func (m *model) initPlace(name string) int {
	return slices.IndexFunc(m.w.want.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name && !pod.IsSidecar(&c) })
}

// here returns the newest container of that name, if it belongs to what the pod
// last began: the newest sandbox, after the last restart of all.
func (m *model) here(name string) *pod.Container {
	c := m.w.have.Container(name)
	if c == nil || c.SandboxID != m.w.have.Sandboxes[0].ID || m.old[c.ID] {
		return nil
	}
	return c
}

// check returns an error if a plan breaks a rule.
func (m *model) check(p Plan) error {
	m.planned = m.rounds
	if p.Finished != m.over() {
		return fmt.Errorf("the pod is over: %t, the plan says %t", m.over(), p.Finished)
	}
	if p.Finished && (len(p.Actions) > 0 || len(p.Waits) > 0) {
		return errors.New("a finished pod has something to do")
	}
	j := checker{model: m, gone: map[string]bool{}, started: map[string]bool{}}
	for _, a := range p.Actions {
		if err := j.action(a); err != nil {
			return fmt.Errorf("%s: %w", describeAction(a), err)
		}
	}
	for _, wait := range p.Waits {
		if !wait.Until.After(m.w.now()) {
			return fmt.Errorf("%s waits for what is already past", wait.Container)
		}
		if j.started[wait.Container] {
			return fmt.Errorf("%s is started and waits", wait.Container)
		}
	}
	return nil
}

// checker goes through the actions of one plan.
type checker struct {
	*model
	gone    map[string]bool // what was stopped, dropped or removed, by action and ID
	created bool            // a sandbox was made
	started map[string]bool
}

func (j *checker) action(a Action) error {
	switch a := a.(type) {
	case StopSandbox:
		return j.once("stop " + a.ID)
	case StopContainer:
		return j.once("stop " + a.ID)
	case DropContainer:
		return j.once("remove " + a.ID)
	case RemoveContainer:
		if c := j.w.byID(a.ID); c.MayRun() {
			return errors.New("it may be running")
		}
		return j.once("remove " + a.ID)
	case RemoveSandbox:
		return j.once("remove " + a.ID)
	case CreateSandbox:
		return j.createSandbox(a)
	case StartContainer:
		return j.start(a)
	default:
		return errors.New("an unknown action")
	}
}

func (j *checker) once(what string) error {
	if j.gone[what] {
		return errors.New("twice in one plan")
	}
	j.gone[what] = true
	return nil
}

func (j *checker) createSandbox(a CreateSandbox) error {
	for _, s := range j.w.have.Sandboxes {
		if s.Attempt >= a.Attempt {
			return fmt.Errorf("%s had that attempt", s.ID)
		}
		if s.State == pod.SandboxReady && !j.gone["stop "+s.ID] {
			return fmt.Errorf("%s is still there", s.ID)
		}
	}
	if j.created {
		return errors.New("twice in one plan")
	}
	j.created = true
	return nil
}

func (j *checker) start(a StartContainer) error {
	if j.started[a.Name] {
		return errors.New("twice in one plan")
	}
	j.started[a.Name] = true
	if !j.created && j.w.have.Sandboxes[0].State != pod.SandboxReady {
		return errors.New("there is no sandbox for it")
	}
	for _, c := range j.w.have.Containers {
		switch stopped := j.gone["stop "+c.ID] || j.gone["stop "+c.SandboxID]; {
		case c.Name != a.Name:
		case c.MayRun() && !stopped:
			return fmt.Errorf("%s may be running", c.ID)
		case c.RestartCount >= a.RestartCount && !j.gone["remove "+c.ID]:
			return fmt.Errorf("%s had that restart count", c.ID)
		}
	}
	if pod.IsEphemeral(j.w.want, a.Name) {
		if j.lived[a.Name] {
			return errors.New("it had its one life")
		}
		return nil
	}
	if j.final[a.Name] {
		return errors.New("it has ended for good")
	}
	return j.inOrder(a.Name)
}

// inOrder reports whether it is the turn of a container.
func (j *checker) inOrder(name string) error {
	init := j.w.want.Spec.InitContainers
	place := slices.IndexFunc(init, func(c v1.Container) bool { return c.Name == name })
	isMain := place < 0
	if isMain {
		place = len(init)
	}
	initialized := !j.created && slices.ContainsFunc(j.w.want.Spec.Containers, func(c v1.Container) bool { return j.here(c.Name) != nil })

	if j.initPlace(name) >= 0 && j.done[name] && !j.created {
		c := j.here(name)
		later := slices.ContainsFunc(init[place+1:], func(c v1.Container) bool { return j.here(c.Name) != nil })
		if initialized || later || c != nil && c.State == pod.ContainerExited && c.ExitCode == 0 {
			return errors.New("it runs again, and everybody can see that it is done")
		}
	}
	for i := range init[:place] {
		before := &init[i]
		if !pod.IsSidecar(before) {
			if j.created || !j.done[before.Name] {
				return fmt.Errorf("init container %s is not done", before.Name)
			}
			continue
		}
		c := j.here(before.Name)
		up := c != nil && c.State == pod.ContainerRunning && !j.started[before.Name]
		if !initialized && (j.created || !up) {
			return fmt.Errorf("sidecar %s is not up", before.Name)
		}
	}
	return nil
}
