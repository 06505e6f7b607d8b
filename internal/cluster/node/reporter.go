package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"berth/internal/lib/run"
)

// Defaults, the same as the kubelet's.
const (
	defaultUpdate = 10 * time.Second
	defaultReport = 5 * time.Minute
	defaultLease  = 40 * time.Second
)

const (
	// callTimeout bounds one request. It is shorter than the time between two renewals of a lease.
	callTimeout = 8 * time.Second
	// askTimeout bounds one reading of the runtime's facts.
	askTimeout = 30 * time.Second
	// factsInterval is the time between two readings of the facts of the machine and its runtime.
	factsInterval = time.Minute
	// factsRetryInterval is factsInterval as long as the runtime has not reported its name.
	factsRetryInterval = 5 * time.Second
	// firstStatusTimeout is how long a Node that exists keeps its status after a start
	// while nothing is known of the runtime: a restart of the agent changes no condition. It is
	// longer than silenceTimeout, so that the first status says what is wrong with the runtime.
	firstStatusTimeout = 15 * time.Second
	// urgentGap is how long after a patch the next may follow. After urgentRow urgent patches
	// in a row it doubles with each, up to the usual interval.
	urgentGap = 500 * time.Millisecond
	urgentRow = 4
	// stuckAfter is after how many failed renewals in a row the connection is replaced. A single
	// renewal without any answer is enough, too.
	stuckAfter = 3
)

// Events records events of the Node. It must not block.
type Events interface {
	RecordNode(kind, reason, message string)
}

// Client is the part of a clientset that a Reporter calls.
type Client interface {
	CoreV1() corev1.CoreV1Interface
	CoordinationV1() coordinationv1.CoordinationV1Interface
}

// Config configures a Reporter.
type Config struct {
	Settings Settings
	Client   Client // for heartbeats; nothing else should hold it up
	Events   Events
	Log      *slog.Logger

	// Machine, Addresses and Runtime read the facts. One goroutine calls them once a minute.
	Machine   func() (Machine, error)
	Addresses func() ([]string, error)
	Runtime   func(context.Context) (Runtime, error)

	// Watch is the client that watches the Node, so that changes by other programs are seen
	// at once. It must be a client without a timeout, which would end the watch again and
	// again. nil: the Node is not watched, and such changes are noticed with the next patch.
	Watch corev1.NodesGetter

	// Registered is called when the API server has a Node of ours with a new UID: at first, and
	// again after it was deleted or all of the server's data is gone. Objects that belonged to
	// the former Node may have to be written again. It must not block. May be nil.
	Registered func(uid types.UID, again bool)
	// Ready is called when the API server has got a status in which the Node is ready. It must not block. May be nil.
	Ready func()
	// Changed is called when Node has other labels, taints, allocatable resources or
	// attached volumes, or another UID, than before. It must not block. May be nil.
	Changed func()

	// Reconnect is called when a renewal of the lease gets no answer, or renewals
	// keep failing: the connection may be dead without having been closed. May be nil.
	Reconnect func()

	// DontRegister waits until another program has created the Node.
	DontRegister bool

	Update time.Duration // between two patches of a status that changes; zero: 10 s
	Report time.Duration // between two patches of a status that does not change; zero: 5 min
	Lease  time.Duration // for how long a lease is good; a quarter of it later it is renewed; zero: 40 s
}

// Reporter keeps the Node and the Lease of this machine. Its methods may be
// called by any goroutine at any time, and do not block.
type Reporter struct {
	config Config

	known     chan struct{} // closed once the Node is known
	wakeFacts chan struct{}
	wakeNode  chan struct{}
	wakeLease chan struct{}

	mu       sync.Mutex
	node     *v1.Node // as the API server had it last; replaced, never changed; nil: not known yet
	stale    bool     // node may be out of date, or gone: to be read before the next patch
	endWatch func()   // ends the watch that is open; nil: there is none yet
	facts    Facts
	health   Health
	reported struct{ runtime, network bool } // whether SetRuntime and SetNetwork were called
	volumes  volumes
}

var errNoWord = errors.New("nothing is known of it yet")

// New returns a reporter, or an error that names the field that is missing in c. Until
// SetRuntime and SetNetwork are called the node is not ready.
func New(c Config) (*Reporter, error) {
	if c.Client == nil || c.Events == nil || c.Log == nil || c.Machine == nil || c.Addresses == nil || c.Runtime == nil {
		return nil, errors.New("node: Client, Events, Log, Machine, Addresses and Runtime are needed")
	}
	if err := c.Settings.check(); err != nil {
		return nil, err
	}
	c.Update, c.Report, c.Lease = cmp.Or(c.Update, defaultUpdate), cmp.Or(c.Report, defaultReport), cmp.Or(c.Lease, defaultLease)
	if c.Update < time.Second || c.Report < c.Update || c.Lease < time.Second {
		return nil, fmt.Errorf("node: a status every %v to %v and a lease of %v can't be kept", c.Update, c.Report, c.Lease)
	}
	return &Reporter{
		config:    c,
		known:     make(chan struct{}),
		wakeFacts: make(chan struct{}, 1),
		wakeNode:  make(chan struct{}, 1),
		wakeLease: make(chan struct{}, 1),
		health:    Health{Runtime: errNoWord, Network: errNoWord},
		volumes:   volumes{news: make(chan struct{})},
	}, nil
}

// Run keeps Node and Lease until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	group := run.NewGroup(ctx, r.config.Log)
	defer group.Stop()
	r.config.Events.RecordNode(v1.EventTypeNormal, "Starting", "Starting berth, in the place of a kubelet")
	r.readMachine()
	group.Go("node facts", r.keepFacts)
	group.Go("node status", r.keepNode)
	group.Go("node lease", r.keepLease)
	if r.config.Watch != nil {
		group.Go("node watch", r.keepWatch)
	}
	<-ctx.Done()
}

// SetRuntime says whether the container runtime works: nil, or why not.
func (r *Reporter) SetRuntime(err error) {
	back := false
	r.change(func(h *Health) {
		back = err == nil && (h.Runtime != nil || !r.reported.runtime)
		h.Runtime, r.reported.runtime = err, true
	})
	if back {
		run.Notify(r.wakeFacts) // it may have come back in another version
	}
}

// Refresh makes keepFacts read the facts of the machine now: something about it has changed.
func (r *Reporter) Refresh() { run.Notify(r.wakeFacts) }

// SetNetwork says whether the network of pods works: nil, or why not.
func (r *Reporter) SetNetwork(err error) {
	r.change(func(h *Health) { h.Network, r.reported.network = err, true })
}

// SetSyncLoop says whether the sync loop answers: nil, or that it does not.
func (r *Reporter) SetSyncLoop(err error) { r.change(func(h *Health) { h.SyncLoop = err }) }

// SetShutdown says why this machine shuts down, or nil if it does not.
func (r *Reporter) SetShutdown(err error) { r.change(func(h *Health) { h.Shutdown = err }) }

// SetPressure sets the resources that this machine runs out of.
func (r *Reporter) SetPressure(p Pressure) { r.change(func(h *Health) { h.Pressure = p }) }

// Pressure returns the pressure conditions that are True.
func (r *Reporter) Pressure() []v1.NodeConditionType {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health.Pressure.conditions()
}

// change lets f change the health of the node, and wakes the writer of the Node if f changed it.
func (r *Reporter) change(f func(*Health)) {
	r.mu.Lock()
	before, heard := r.health, r.reported
	f(&r.health)
	after := r.health
	if heard != r.reported || before.notReadyReason() != after.notReadyReason() || before.Pressure != after.Pressure {
		run.Notify(r.wakeNode)
	}
	r.mu.Unlock()
	switch {
	case before.Shutdown == nil && after.Shutdown != nil:
		r.config.Events.RecordNode(v1.EventTypeNormal, "Shutdown", "The machine goes down: "+after.Shutdown.Error())
	case before.Shutdown != nil && after.Shutdown == nil:
		r.config.Events.RecordNode(v1.EventTypeNormal, "Shutdown", "The machine does not go down after all")
	}
}
