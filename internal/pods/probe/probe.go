// Package probe asks containers how they are: whether they have started, whether
// they live, whether they are ready for work. It decides nothing about pods: what it
// finds out is there to be read (Health, Last), and when it changes, the loop of the
// agent is told to look at the pod again.
//
//	Watch ──▶ containers ──▶ queue ──▶ a goroutine per check ──▶ tally ──▶ Health
//	             ▲        one timer    exec, httpGet, ...          │
//	             └───────────── opened, held, next time ◀──────────┴──▶ events, results
//
// Only the Manager writes its tables, under one lock that nobody holds while waiting.
// What always holds:
//   - A probe runs once at a time. There is one goroutine for each that runs and one
//     for the time of all of them, so what hangs costs one goroutine until its timeout.
//   - No pod keeps the commands of others from being run, see slots.
//   - What is known belongs to a container ID and dies with it. What was found last is
//     shown until the next container of that name has answered.
//   - A check that could not be made (the runtime does not answer, the port has no
//     such name) says nothing about the container: it changes nothing but what is shown.
//   - A change is on disk before anybody can read it or is told of it, so that a
//     restarted agent knows no less than was told. Only if the file can't be written is
//     it told without. A killed agent is outlived, but not the machine: no container is.
package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/queue"
	"berth/internal/lib/run"
	"berth/internal/pods/handler"
)

// Events take note of what happens to containers. They never block.
type Events interface {
	RecordContainer(p *v1.Pod, container, kind, reason, message string)
}

// Config is what a Manager is made of.
type Config struct {
	// Exec runs a command in a container. An error that is a
	// context.DeadlineExceeded says that the command did not end in time.
	Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (output []byte, exitCode int32, err error)
	// Explain puts an error of Exec into words for users.
	Explain func(error) string
	// Expand fills the variables of a container into a command. Nil: commands are
	// run as they stand.
	Expand func(c *v1.Container, command []string) []string
	Events Events
	Log    *slog.Logger

	// HostIP tells where pods are that use the network of the node.
	HostIP func() string
	// StateFile is where results outlive the agent. Empty: nowhere.
	StateFile string
	// ExecSlots is how many commands run at a time. Beside them there may be some
	// that hang, see slots.
	ExecSlots int

	// OnCheck is told of each check, if it is there: the kind of the probe, what
	// came of it, and how long it took.
	OnCheck func(p *v1.Pod, container, kind string, result Outcome, took time.Duration)
}

// Outcome is what came of one check.
type Outcome string

// The words are those of the metric that people know.
const (
	Success Outcome = "successful"
	Failure Outcome = "failed"
	// Unknown is for a check that could not be made.
	Unknown Outcome = "unknown"
)

// Result is what the last check of one probe found.
type Result struct {
	Kind    string // Startup, Liveness, Readiness
	At      time.Time
	Outcome Outcome
	Output  string // one short line that is safe to print
	InARow  int    // how many checks ended like that, the last one included
}

// Manager probes containers.
type Manager struct {
	// Results that changed what is known. Whoever reads them must go on reading.
	Liveness, Readiness, Startup <-chan pod.ProbeResult

	config    Config
	results   [kinds]chan pod.ProbeResult
	slots     *slots // for commands
	transport *http.Transport
	startedAt time.Time

	queueChanged chan struct{} // the queue has a new head
	saveNeeded   chan struct{} // wakes who writes the state file

	saving sync.Mutex  // of file: one at a time
	file   stateFile   // where results are kept
	stale  atomic.Bool // it is out of date

	mu         sync.Mutex
	containers map[string]*container // by ID
	pods       map[pod.UID]*podState
	saved      map[string]entry     // from before a restart, not watched yet
	queue      *queue.Queue[*probe] // by the time of their turn
}

// podState is a pod some of whose containers are probed.
type podState struct {
	containers map[string]*container // by ID
	before     map[string][]Result   // of the containers that ended last, by name
	stopping   bool
}

// New returns a manager that knows what the state file holds. It probes nothing
// until Run.
func New(c Config) (*Manager, error) {
	var err error
	if c.Exec == nil || c.Explain == nil || c.Events == nil || c.Log == nil {
		err = errors.Join(err, errors.New("exec, explain, events and log are required"))
	}
	if c.ExecSlots < 1 {
		err = errors.Join(err, fmt.Errorf("%d commands at a time are none: at least one must be allowed", c.ExecSlots))
	}
	if err != nil {
		return nil, fmt.Errorf("make the manager of probes: %w", err)
	}
	m := &Manager{
		config:       c,
		slots:        newSlots(c.ExecSlots),
		transport:    handler.NewTransport(),
		startedAt:    time.Now(),
		queueChanged: make(chan struct{}, 1),
		saveNeeded:   make(chan struct{}, 1),
		file:         stateFile{path: c.StateFile},
		containers:   map[string]*container{},
		pods:         map[pod.UID]*podState{},
		queue:        queue.New(func(a, b *probe) bool { return a.at.Before(b.at) }),
	}
	for k := range m.results {
		m.results[k] = make(chan pod.ProbeResult)
	}
	m.Startup, m.Liveness, m.Readiness = m.results[startup], m.results[liveness], m.results[readiness]
	if m.saved, err = m.file.load(); err != nil {
		// What it held is found out again, by and by.
		c.Log.Warn("some results of earlier probes are lost; their containers are not ready until they are probed again", "err", err)
	}
	return m, nil
}

// Run probes until ctx ends. Nothing of it goes on when it returns.
func (m *Manager) Run(ctx context.Context) {
	group := run.NewGroup(ctx, m.config.Log)
	group.Go("results of probes to disk", m.saveLoop)
	m.dispatch(ctx, group)
	group.Stop()
	m.commit()
}

// Health is what is known of a container, and on disk. For one that is not watched
// yet it is what was known before the agent was restarted; for any other, nothing.
func (m *Manager) Health(containerID string) pod.Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.containers[containerID]; c != nil {
		return c.shown
	}
	return m.saved[containerID].health()
}

// Last returns the last result of each probe of a container that has one.
func (m *Manager) Last(containerID string) []Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.containers[containerID]; c != nil {
		return c.results()
	}
	return nil
}

// Before returns what was found last of a container that ended, until the one that
// took its place has answered.
func (m *Manager) Before(uid pod.UID, name string) []Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.pods[uid]; w != nil {
		return w.before[name]
	}
	return nil
}
