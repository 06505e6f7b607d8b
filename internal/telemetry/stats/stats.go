// Package stats knows what the pods of this node, and the node itself, use.
//
// Nothing is measured before the first request, and the result is reused for a moment for
// further requests: many readers cost as much as one. CPU, memory and
// processes come from cgroups, a pod's network from the kernel, and what a container
// wrote from the runtime, as does all of it for a container that has no cgroup
// here, such as one in a virtual machine.
//
// Measurements that can block (a file system that hangs) or take long (counting the files of a
// volume) are made in the background, seldom, and answers have their last results. A value that
// was not measured is missing: there are no zeros in its place.
//
// Only the Reader writes a Snapshot. A Snapshot that was returned is never changed.
package stats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/cri"
)

// Counters reads the kernel's counters of cgroups.
type Counters interface {
	Usage(path string) cgroup.Usage
	Detail(path string) cgroup.Detail
	Disks(path string) []cgroup.Disk
	Children(path string) ([]string, error)
	Process(path string) int
	Processes(path string, most int) []int
}

// Runtime is the part of a container runtime that a Reader calls.
type Runtime interface {
	Stats(ctx context.Context) ([]cri.PodStats, error)
	Filesystems(ctx context.Context) (cri.Filesystems, error)
}

// Config configures a Reader.
type Config struct {
	NodeName string
	// Pods returns the pods of which something may run, and Known their last observed state.
	// Neither calls the runtime or the API server.
	Pods  func() []*v1.Pod
	Known func() []pod.Observed
	// Cgroup returns the path of a pod's cgroup. AllPods returns the path of the cgroup of all pods, and is nil if
	// there is none.
	Cgroup  func(*v1.Pod) string
	AllPods func() string
	// AgentCgroup is the path of the cgroup that holds only this process. Empty: there is none, and its pressure is not measured.
	AgentCgroup string
	// RuntimeCgroup is the path of the cgroup of the container runtime. Empty: it is not measured.
	RuntimeCgroup string
	// SystemCgroup is the path of the cgroup of processes of the machine that no other cgroup had. Empty: it is not measured.
	SystemCgroup string
	// Volume is where a volume of a pod is, if it was set up.
	Volume func(uid pod.UID, name string) (string, bool)

	// OnMeasured is called after the measurement of a volume or file system: the source is du if its files were counted, else statfs.
	// It may be nil.
	OnMeasured func(source string, took time.Duration)

	Counters Counters
	Runtime  Runtime
	RootDir  string // on the file system that pods share
	Proc     string // where /proc is; "" is there
	Log      *slog.Logger
}

// Scope is how much is asked for. Each has all of the one before.
type Scope int

const (
	Brief    Scope = iota // CPU, memory, swap and processes
	Detailed              // pressure and limits, too
	Full                  // network, disks and file systems, too
)

const (
	// fresh is for how long a snapshot is reused.
	fresh = time.Second
	// rateWithin is how old an earlier sample of CPU time may be for a rate that
	// people can believe, and pause how long to wait for a second one otherwise.
	rateWithin = time.Minute
	pause      = 200 * time.Millisecond
)

// Reader measures when it is asked to.
type Reader struct {
	Config
	machine  machine
	files    *meter
	runtime  *runtimeUsage
	group    *run.Group
	topology func() Topology // read once
	turn     chan struct{}   // holds a value while a measurement runs
	rates    rates
	snapshot *Snapshot // the last one
	scope    Scope     // of it
}

// New returns a reader. Its measurements in the background end when ctx ends; Stop waits for them.
func New(ctx context.Context, c Config) (*Reader, error) {
	var err error
	for _, need := range []struct {
		ok   bool
		what string
	}{
		{c.NodeName != "", "the node has no name"},
		{c.Pods != nil && c.Known != nil, "it is not known which pods there are"},
		{c.Cgroup != nil && c.Counters != nil, "there are no cgroups"},
		{c.Volume != nil, "it is not known where volumes are"},
		{c.Runtime != nil, "there is no runtime"},
		{c.RootDir != "", "there is no root directory"},
		{c.Log != nil, "there is no log"},
	} {
		if !need.ok {
			err = errors.Join(err, errors.New(need.what))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the reader of stats: %w", err)
	}
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	group := run.NewGroup(ctx, c.Log)
	host := machine{proc: c.Proc, sys: "/sys"}
	return &Reader{
		Config: c, machine: host, group: group,
		files: newMeter(group, c.measurePlace), runtime: newRuntimeUsage(group, c.Runtime, c.Log),
		turn: make(chan struct{}, 1), rates: rates{}, topology: sync.OnceValue(host.topology),
	}, nil
}

// Booted returns when the machine was started, or zero if the kernel does not say.
func (r *Reader) Booted() time.Time {
	_, booted := r.machine.cpu()
	return booted
}

// Stop ends what is measured beside.
func (r *Reader) Stop() { r.group.Stop() }

// Read returns what is used now, or was a moment ago.
func (r *Reader) Read(ctx context.Context, scope Scope) (*Snapshot, error) {
	return r.read(ctx, scope, false)
}

// ReadRates is Read, and waits a moment if a second sample is needed for the rate of CPU usage.
func (r *Reader) ReadRates(ctx context.Context, scope Scope) (*Snapshot, error) {
	return r.read(ctx, scope, true)
}

func (r *Reader) read(ctx context.Context, scope Scope, withRates bool) (*Snapshot, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("read stats: %w", ctx.Err())
	}
	now := time.Now()
	if s := r.snapshot; s != nil && r.scope >= scope && now.Sub(s.At) < fresh && (!withRates || s.hasRates) {
		return s, nil
	}
	if withRates && r.rates.stale(now) {
		r.sample()
		if err := rest(ctx); err != nil {
			return nil, err
		}
	}
	s, err := r.gather(ctx, scope)
	if err == nil && withRates && !s.hasRates { // something began since the last sample
		if err := rest(ctx); err != nil {
			return nil, err
		}
		s, err = r.gather(ctx, scope)
	}
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	r.snapshot, r.scope = s, scope
	return s, nil
}

// rest waits until the next sample makes a rate.
func rest(ctx context.Context) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read stats: %w", ctx.Err())
	}
}
