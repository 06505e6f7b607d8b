// Package probe runs the startup, liveness and readiness probes of containers. It decides nothing
// about pods: Health and Last return its results, and when the health of a container changes, the
// agent's loop gets a result, and syncs the pod.
//
//	Watch ──▶ containers ──▶ queue ──▶ a goroutine per check ──▶ tally ──▶ Health
//	             ▲        one timer    exec, httpGet, ...          │
//	             └──────────────── schedule, unschedule ◀──────────┴──▶ events, results
//
// Only the Manager writes its tables, under one lock that is never held while waiting.
// What always holds:
//   - A probe runs once at a time. Each running check has a goroutine, and one goroutine starts all
//     of them, so a check that hangs costs one goroutine until its timeout.
//   - No pod keeps the exec probes of others from running, see slots.
//   - Results belong to a container ID and end with it. The last ones are shown until the next
//     container of that name has some.
//   - A check that could not be made (the runtime does not answer, there is no port of that name)
//     does not change the health of a container.
//   - A change is in the state file before it is published, so that a restarted agent knows it, too.
//     Only if the file can't be written is it published without. The file need not survive a crash
//     of the machine, since no container does.
package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/queue"
	"berth/internal/lib/run"
	"berth/internal/pods/handler"
)

// Events records events of containers. It never blocks.
type Events interface {
	RecordContainer(p *v1.Pod, container, kind, reason, message string)
}

// Config is checked by New.
type Config struct {
	// Exec runs a command in a container. context.DeadlineExceeded: the command did not end within the
	// timeout.
	Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (output []byte, exitCode int32, err error)
	// Explain returns the text of an error of Exec for users.
	Explain func(error) string
	// Expand replaces the variables of a container in a command. Nil: commands are run unchanged.
	Expand func(c *v1.Container, command []string) []string
	Events Events
	Log    *slog.Logger

	// HostIP returns the address of pods with hostNetwork.
	HostIP func() string
	// StateFile is the path of the file that keeps results over a restart. Empty: they are not kept.
	StateFile string
	// ExecSlots is the number of commands that run at a time, in addition to some that hang, see
	// slots.
	ExecSlots int

	// OnCheck is called after each check with the kind of the probe, its outcome and its duration. It
	// may be nil.
	OnCheck func(p *v1.Pod, container, kind string, result Outcome, took time.Duration)
}

// Outcome is the outcome of one check.
type Outcome string

// The values are those of the kubelet's metric prober_probe_total.
const (
	Success Outcome = "successful"
	Failure Outcome = "failed"
	// Unknown is the outcome of a check that could not be made.
	Unknown Outcome = "unknown"
)

// Result is the last result of one probe.
type Result struct {
	Kind    string // Startup, Liveness, Readiness
	At      time.Time
	Outcome Outcome
	Output  string // one short line that is safe to print
	InARow  int    // the number of consecutive checks with this outcome
}

// Manager probes containers.
type Manager struct {
	// Results that changed the health of a container. The channels are unbuffered: the reader must not
	// stop.
	Liveness, Readiness, Startup <-chan pod.ProbeResult

	config    Config
	results   [kinds]chan pod.ProbeResult
	slots     *slots // for exec probes
	transport *http.Transport
	startedAt time.Time

	queueChanged chan struct{} // the queue has a new head
	saveNeeded   chan struct{} // capacity 1: the state file has to be written

	saving sync.Mutex  // held while the state file is written
	file   stateFile   // the state file
	stale  atomic.Bool // the state file is out of date

	mu         sync.Mutex
	containers map[string]*container // by ID
	pods       map[pod.UID]*podState
	saved      map[string]entry     // from before a restart, not watched yet
	queue      *queue.Queue[*probe] // by the time of the next run
}

// podState is the state of a pod with probes.
type podState struct {
	containers map[string]*container // by ID
	before     map[string][]Result   // last results of containers that ended, by name
	stopping   bool
}

// New reads the state file. Probing begins with Run.
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
	m.saved = m.file.load(c.Log)
	return m, nil
}

// Run probes containers until ctx ends. All goroutines have ended when it returns.
func (m *Manager) Run(ctx context.Context) {
	group := run.NewGroup(ctx, m.config.Log)
	group.Go("results of probes to disk", m.saveLoop)
	m.dispatch(ctx, group)
	group.Stop()
	m.commit()
}

// Health returns the health of a container, as far as it is on disk. For a container that is not
// watched yet, it is the health from before the restart of the agent, if any.
func (m *Manager) Health(containerID string) pod.Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.containers[containerID]; c != nil {
		return c.shown
	}
	return m.saved[containerID].health()
}

// ContainerResult is the last result of a probe of a container.
type ContainerResult struct {
	Container string
	Result
	Ended bool // the container ended, and its successor has no results yet
}

// LastOfPod returns the last results of the probes of all containers that the status of a pod has.
func (m *Manager) LastOfPod(p *v1.Pod) []ContainerResult {
	var out []ContainerResult
	for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range statuses {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			found, ended := m.Last(id), false
			if found == nil {
				found, ended = m.Before(p.UID, s.Name), true
			}
			for _, r := range found {
				out = append(out, ContainerResult{Container: s.Name, Result: r, Ended: ended})
			}
		}
	}
	return out
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

// Before returns the last results of a container that ended, until its successor has results.
func (m *Manager) Before(uid pod.UID, name string) []Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.pods[uid]; w != nil {
		return w.before[name]
	}
	return nil
}
