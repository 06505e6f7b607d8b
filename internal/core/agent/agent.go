// Package agent is the sync loop: the one place where all that happens to the
// pods of this node comes together, and is handed to the one who deals with it.
//
// The loop never blocks and never acts itself. It keeps the desired set (of which
// it is the only writer), asks admission, and tells workers what is wanted or that
// something is worth a look. All else is in their hands.
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

// Workers do the work of each pod.
type Workers interface {
	Desire(*v1.Pod)
	Remove(*v1.Pod)
	Orphan(pod.Observed)
	Enqueue(pod.UID)
	// End stops a pod that its source still has, and Ended is closed when it has.
	End(uid pod.UID, grace *int64, cause pod.Cause)
	Ended(uid pod.UID) <-chan struct{}
	// Revive says that what ended a pod has passed.
	Revive(uid pod.UID)
	Lives() map[pod.UID]worker.Life
	// Life is what Lives tells of one pod. It is false if nobody works on it.
	Life(uid pod.UID) (worker.Life, bool)
}

// Events take note of what happens to pods. They never block.
type Events interface {
	Record(p *v1.Pod, kind, reason, message string)
}

// Upstream is whoever else wants to know of the pods of this node: an API server,
// or nobody. None of it ever blocks.
type Upstream interface {
	// Publish is told a status that has to be seen there.
	Publish(p *v1.Pod, s v1.PodStatus)
	// Mirror sees to it that a static pod can be seen there, as it is now.
	Mirror(static *v1.Pod)
	// Unmirror is told that a mirror pod has lost its static pod.
	Unmirror(mirror *v1.Pod)
	// Forget is told that a pod is gone there.
	Forget(uid pod.UID)
}

// Metrics counts what happens in the loop. None of it ever blocks.
type Metrics interface {
	Updated(source string, op pod.Op, pods int)
	Rejected(reason string)
	Preempted(victims int)
	// Orphaned is told of a pod in the runtime that nobody wants.
	Orphaned()
}

// noMetrics is for those who do not count.
type noMetrics struct{}

func (noMetrics) Updated(string, pod.Op, int) {}
func (noMetrics) Rejected(string)             {}
func (noMetrics) Preempted(int)               {}
func (noMetrics) Orphaned()                   {}

// Config is what an Agent is made of.
type Config struct {
	Log *slog.Logger
	// Node is the machine as admission sees it now.
	Node func() admit.Node
	// ReloadNode brings Node up to date, or says why it can't before ctx ends. Nil: it always
	// is.
	ReloadNode func(ctx context.Context) error
	Sources    []string // those that must have spoken before anything is cleaned up
	Desired    *desired.Set
	Statuses   *status.Store
	Events     Events
	Upstream   Upstream

	// InRuntime and OnDisk list the pods of which there is anything. No pod is acted on
	// before InRuntime has answered once. It may take for ever, and fail.
	InRuntime func(context.Context) (map[pod.UID]*pod.Observed, error)
	OnDisk    func() (map[pod.UID]*pod.Observed, error)
	// Housekeeping is the time between two searches for leftovers.
	Housekeeping time.Duration

	// Liveness, Readiness and Startup bring the results of probes.
	Liveness, Readiness, Startup <-chan pod.ProbeResult

	// Metrics counts what happens. Nil: nobody does.
	Metrics Metrics

	// EphemeralContainers remember the containers that are added to static pods. Nil: none are.
	EphemeralContainers EphemeralContainers
}

// Agent is the sync loop and what it knows.
type Agent struct {
	Config
	workers Workers // set when the loop begins

	updates         chan pod.Update
	changed         chan pod.UID
	gone            chan pod.UID
	leftoversFound  chan leftovers
	listed          chan map[pod.UID]*pod.Observed // the first list
	roomFreed       chan struct{}                  // has been made
	nodeReloaded    chan struct{}                  // a read of the Node is over
	pings           chan struct{}
	remirror        chan struct{}
	holds           chan holdRequest
	containersAdded chan containerAdded
	due             *dueQueue
	synced          chan struct{} // closed once all sources have told what they have
	closeSynced     sync.Once     // closes it

	// ---  below: only the loop

	// foundAtStart are the pods that the runtime held when the agent started. They were admitted
	// before, and are not asked again. Nil: the runtime was not listed yet.
	foundAtStart map[pod.UID]*pod.Observed
	ready        map[string]bool
	refused      map[string][]pod.Refusal
	unreadable   map[pod.UID]*unreadablePod
	hold         *pod.Cause // why no pod may start; nil: they may
	states       *podStates // what was decided about each pod
	reloading    bool       // the Node
	sweeping     bool
	swept        time.Time        // when the last search for leftovers began
	sweepDue     <-chan time.Time // nil: no event asks for a search
	leaving      departures
	memo         admit.Memo
	occupancy    *occupancy
	// tenantsNow and tenantsThen are the answers of tenants, to be used again.
	tenantsNow, tenantsThen []*v1.Pod

	view *view
}

// New returns an agent. It does nothing until Run.
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

// Enqueue says that something about a pod may have changed. It waits for the
// loop, which never waits.
func (a *Agent) Enqueue(ctx context.Context, uid pod.UID) { send(ctx, a.changed, uid) }

// PodGone says that nothing is left of a pod.
func (a *Agent) PodGone(ctx context.Context, uid pod.UID) { send(ctx, a.gone, uid) }

// EnqueueAt asks for a look at a pod at that time.
func (a *Agent) EnqueueAt(uid pod.UID, at time.Time) { a.due.add(uid, at) }

// Synced is closed once all sources have told which pods they have: until then, a pod that
// nobody has heard of may still be wanted.
func (a *Agent) Synced() <-chan struct{} { return a.synced }

// Alive tells whether the loop goes round: nil, or that it did not before ctx ended.
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

// Run is the loop. snapshots is what the sources send.
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
	var retry <-chan time.Time // nil: no rejected pod is to be asked for again
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
