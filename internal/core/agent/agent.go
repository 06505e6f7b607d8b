// Package agent is the sync loop, as the kubelet has one: a single goroutine that receives the
// updates of all sources, the results of probes, events of the runtime and requests to drain the
// node, one after the other.
//
// For an update the loop changes the desired set, of which it is the only writer, lets package
// admit decide on new pods (state.go), and hands admitted pods to the workers. For anything else
// that concerns a pod it enqueues the pod at its worker. In each housekeeping it hands the
// workers the orphans: pods of the runtime or the disk that no source has.
//
// The loop never blocks, and calls neither the runtime nor the API server: whatever takes time
// runs beside it and sends its result on a channel.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// Workers starts, syncs and stops pods. See worker.Pool.
type Workers interface {
	Desire(*v1.Pod)
	Remove(*v1.Pod)
	Orphan(pod.Observed)
	Enqueue(pod.UID)
	// End stops a pod that its source still has. Ended is closed once nothing of it runs.
	End(uid pod.UID, grace *int64, cause pod.Cause)
	Ended(uid pod.UID) <-chan struct{}
	// Revive starts a pod again that a passing cause ended.
	Revive(uid pod.UID)
	Lives() map[pod.UID]worker.Life
	// Life is the entry of Lives for one pod, and false if the pod has no worker.
	Life(uid pod.UID) (worker.Life, bool)
}

// Events records Kubernetes events of pods. It never blocks.
type Events interface {
	Record(p *v1.Pod, kind, reason, message string)
}

// Upstream is the API server, or nothing at all if the agent runs standalone. No method blocks.
type Upstream interface {
	// Publish writes a pod's status.
	Publish(p *v1.Pod, s v1.PodStatus)
	// Mirror creates the mirror pod of a static pod, or replaces that of another version.
	Mirror(static *v1.Pod)
	// Unmirror deletes a mirror pod whose static pod is gone.
	Unmirror(mirror *v1.Pod)
	// Forget drops what is known of a pod that no source has any more.
	Forget(uid pod.UID)
}

// Metrics counts updates, rejections, preemptions and orphans. No method blocks.
type Metrics interface {
	Updated(source string, op pod.Op, pods int)
	Rejected(reason string)
	Preempted(victims int)
	// Orphaned counts a pod of the runtime that no source has.
	Orphaned()
	// OrphansCleaned is called by each housekeeping with the number of orphans that are cleaned up, and of those among them
	// that were found before.
	OrphansCleaned(pods, failed int)
}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) Updated(string, pod.Op, int) {}
func (noMetrics) Rejected(string)             {}
func (noMetrics) Preempted(int)               {}
func (noMetrics) Orphaned()                   {}
func (noMetrics) OrphansCleaned(int, int)     {}

// Config configures an Agent.
type Config struct {
	Log *slog.Logger
	// Node returns the facts of the machine and of its Node object that admission goes by.
	Node func() admit.Node
	// ReloadNode reads the Node object from the API server, so that Node is up to date. Nil:
	// Node is always up to date.
	ReloadNode func(ctx context.Context) error
	Sources    []string // all of them must have sent a snapshot before an orphan is ended
	Desired    *desired.Set
	Statuses   *status.Store
	Events     Events
	Upstream   Upstream

	// InRuntime and OnDisk list the pods that have containers, or files. No pod is started or
	// stopped before InRuntime has succeeded once. It may hang, and fail.
	InRuntime func(context.Context) (map[pod.UID]*pod.Observed, error)
	OnDisk    func() (map[pod.UID]*pod.Observed, error)
	// Housekeeping is the time between two searches for orphans.
	Housekeeping time.Duration

	// Liveness, Readiness and Startup receive the results of probes.
	Liveness, Readiness, Startup <-chan pod.ProbeResult

	// Metrics may be nil.
	Metrics Metrics

	// EphemeralContainers stores the containers that are added to static pods. Nil: none can be
	// added.
	EphemeralContainers EphemeralContainers
}

// Agent is the sync loop with its state.
type Agent struct {
	Config
	workers Workers // set when the loop begins

	updates         chan pod.Update
	changed         chan pod.UID
	gone            chan pod.UID
	leftoversFound  chan leftovers
	listed          chan map[pod.UID]*pod.Observed // the first list
	roomFreed       chan struct{}                  // a preempted pod has ended
	nodeReloaded    chan struct{}                  // a read of the Node is over
	pings           chan struct{}
	remirror        chan struct{}
	holds           chan holdRequest
	containersAdded chan containerAdded
	due             *dueQueue
	synced          chan struct{} // closed once every source has sent a snapshot
	closeSynced     sync.Once

	// The fields below belong to the goroutine of the loop.

	// heldAtStart are the pods that the runtime held when the agent started. They were admitted
	// before, and are not checked again. Nil: the runtime was not listed yet.
	heldAtStart map[pod.UID]*pod.Observed
	ready       map[string]bool
	refused     map[string][]pod.Refusal
	unreadable  map[pod.UID]*unreadablePod
	hold        *pod.Cause // why no pod may start: the node is drained; nil: pods may start
	states      *podStates // what was decided about each pod
	reloading   bool       // a read of the Node is in progress
	sweeping    bool
	orphans     map[pod.UID]bool // found by the last housekeeping
	swept       time.Time        // when the last search for orphans began
	sweepDue    <-chan time.Time // when the search begins that an event asked for; nil: none did
	leaving     departures
	memo        admit.Memo
	occupancy   *occupancy
	// tenantsNow and tenantsThen are the slices that tenants returns, reused by each call.
	tenantsNow, tenantsThen []*v1.Pod

	view *view
}

// New checks the configuration and returns an agent, which does nothing until Run.
func New(c Config) (*Agent, error) {
	if c.Log == nil || c.Node == nil || c.Desired == nil || c.Statuses == nil || c.Events == nil || c.Upstream == nil || c.InRuntime == nil || c.OnDisk == nil {
		return nil, errors.New("agent: log, node, desired, statuses, events, upstream, inRuntime and onDisk are required")
	}
	if c.Housekeeping <= 0 {
		return nil, errors.New("agent: the housekeeping interval must be positive")
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.EphemeralContainers == nil {
		c.EphemeralContainers = noEphemeralContainers{}
	}
	occupancy := newOccupancy(c.Desired, c.Statuses)
	return &Agent{
		Config:          c,
		updates:         make(chan pod.Update),
		changed:         make(chan pod.UID, 64),
		gone:            make(chan pod.UID, 64),
		leftoversFound:  make(chan leftovers),
		listed:          make(chan map[pod.UID]*pod.Observed),
		roomFreed:       make(chan struct{}),
		nodeReloaded:    make(chan struct{}),
		pings:           make(chan struct{}),
		remirror:        make(chan struct{}),
		holds:           make(chan holdRequest),
		containersAdded: make(chan containerAdded),
		due:             newDueQueue(),
		synced:          make(chan struct{}),
		ready:           map[string]bool{},
		refused:         map[string][]pod.Refusal{},
		unreadable:      map[pod.UID]*unreadablePod{},
		states:          newPodStates(occupancy.mark),
		leaving:         newDepartures(),
		occupancy:       occupancy,
		view:            newView(c.Desired, c.Statuses),
	}, nil
}

// Enqueue asks for another sync of a pod. It blocks until the loop receives it.
func (a *Agent) Enqueue(ctx context.Context, uid pod.UID) { send(ctx, a.changed, uid) }

// PodGone reports that a worker has removed all that was left of a pod.
func (a *Agent) PodGone(ctx context.Context, uid pod.UID) { send(ctx, a.gone, uid) }

// EnqueueAt asks for another sync of a pod at that time.
func (a *Agent) EnqueueAt(uid pod.UID, at time.Time) { a.due.add(uid, at) }

// Synced is closed once every source has sent a snapshot. Until then, a pod that is not desired
// may still become so.
func (a *Agent) Synced() <-chan struct{} { return a.synced }

// Alive returns an error if the loop does not receive anything before ctx ends.
func (a *Agent) Alive(ctx context.Context) error {
	select {
	case a.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the sync loop does not answer: %w", context.Cause(ctx))
	}
}

func send[T any](ctx context.Context, to chan<- T, what T) {
	select {
	case to <- what:
	case <-ctx.Done():
	}
}

// Run runs the loop until ctx ends. The sources send on snapshots.
func (a *Agent) Run(ctx context.Context, workers Workers, snapshots <-chan pod.Snapshot) {
	a.workers = workers
	a.view.setWorkers(workers)
	group := run.NewGroup(ctx, a.Log)
	defer group.Stop()
	group.Go("merge", func(ctx context.Context) { a.intake(ctx, snapshots) })
	group.Go("due pods", a.due.run)
	group.Go("first list", a.readRuntime)

	housekeeping := time.NewTicker(a.Housekeeping)
	defer housekeeping.Stop()
	changes, stopWatching := a.view.watch()
	defer stopWatching()
	var retry <-chan time.Time // when rejected pods are checked again; nil: no check is due
	for {
		select {
		case u := <-a.updates:
			a.handleUpdate(group, u)
		case uid := <-a.changed:
			a.handleChanged(group, uid)
		case uid := <-a.due.out:
			a.workers.Enqueue(uid)
		case r := <-a.Liveness:
			a.handleProbe(r)
		case r := <-a.Readiness:
			a.handleProbe(r)
		case r := <-a.Startup:
			a.handleProbe(r)
		case <-a.roomFreed:
			a.handleRoom(group)
		case <-a.nodeReloaded:
			a.handleNodeReloaded(group)
		case r := <-a.holds:
			a.handleHold(group, r)
		case r := <-a.containersAdded:
			a.handleContainerAdded(r)
		case uid := <-a.gone:
			a.handleGone(group, uid)
		case <-a.remirror:
			a.reconcileMirrors()
		case <-a.pings:
		case <-housekeeping.C:
			a.housekeep(group)
			a.retryRejected(group)
		case <-a.sweepDue:
			a.sweepDue = nil
			a.housekeepSoon(group)
		case <-changes:
			if retry == nil && a.states.counts[rejected] > 0 {
				retry = time.After(rejectedRetryInterval)
			}
		case <-retry:
			retry = nil
			a.retryRejected(group)
		case pods := <-a.listed:
			a.handleListed(group, pods)
		case l := <-a.leftoversFound:
			a.handleLeftovers(l)
		case <-ctx.Done():
			return
		}
	}
}
