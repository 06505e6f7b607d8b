package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/cri"
)

// runtimeStats is what the runtime said of containers, by their ids, and of its own file
// systems.
type runtimeStats struct {
	at         time.Time
	containers map[string]cri.ContainerStats
	places     cri.Filesystems
}

const (
	// usageMaxAge is how old the runtime's word may be where it is all there is, and
	// filesMaxAge where it only adds what containers wrote.
	usageMaxAge = 5 * time.Second
	filesMaxAge = 30 * time.Second
	// readerTimeout is how long a reader waits for it if there is none, and
	// callTimeout how long anybody does.
	readerTimeout = 2 * time.Second
	callTimeout   = 20 * time.Second
)

// runtimeUsage asks the runtime, once at a time and beside whoever wants to know:
// with many containers it takes its time.
type runtimeUsage struct {
	runtime Runtime
	group   *run.Group
	log     *slog.Logger

	mu      sync.Mutex
	last    runtimeStats
	asking  chan struct{} // closed when it has answered; nil: nobody asks
	failing bool
}

func newRuntimeUsage(group *run.Group, r Runtime, log *slog.Logger) *runtimeUsage {
	return &runtimeUsage{runtime: r, group: group, log: log}
}

// get returns what the runtime said, and asks again if that is too long ago. It
// waits for the answer only if there is none to tell meanwhile.
func (u *runtimeUsage) get(ctx context.Context, atMost time.Duration) runtimeStats {
	u.mu.Lock()
	age := time.Since(u.last.at)
	if age > atMost && u.asking == nil {
		u.asking = make(chan struct{})
		u.group.Go("usage told by the runtime", u.refresh)
	}
	asking := u.asking
	u.mu.Unlock()
	if asking != nil && age > 2*atMost {
		select {
		case <-asking:
		case <-time.After(readerTimeout):
		case <-ctx.Done():
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

func (u *runtimeUsage) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := runtimeStats{at: time.Now(), containers: map[string]cri.ContainerStats{}}
	pods, err := u.runtime.Stats(ctx)
	for _, p := range pods {
		for _, c := range p.Containers {
			now.containers[c.ID] = c
		}
	}
	if err == nil {
		now.places, err = u.runtime.Filesystems(ctx)
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.asking)
	u.asking = nil
	switch {
	case err == nil:
		u.last = now
		if u.failing {
			u.log.Info("the runtime tells the usage of containers again")
		}
	case !u.failing && ctx.Err() == nil:
		u.log.Warn("the runtime does not tell the usage of containers", "err", err)
	}
	u.failing = err != nil
}

// readRuntime finds out what only the runtime knows.
func (r *Reader) readRuntime(ctx context.Context, pods []Pod, scope Scope) runtimeStats {
	for _, p := range pods {
		for _, c := range p.Containers {
			if c.Cgroup == "" {
				return r.runtime.get(ctx, usageMaxAge)
			}
		}
	}
	if scope >= Full {
		return r.runtime.get(ctx, filesMaxAge)
	}
	return runtimeStats{}
}

// runtimeReported is that of a container by the word of the runtime.
func (r *Reader) runtimeReported(id string, c cri.ContainerStats) Usage {
	u := Usage{Usage: cgroup.Usage{At: c.CPU.At, CPU: c.CPU.Total}, Rate: c.CPU.Rate}
	if u.Rate == nil {
		u.Rate = r.rates.add(id, c.CPU.At, c.CPU.Total)
	}
	if c.Memory.WorkingSet == nil && c.Memory.Usage == nil {
		return u
	}
	value := func(v *uint64) uint64 {
		if v == nil {
			return 0
		}
		return *v
	}
	m := &cgroup.Memory{
		Usage: value(c.Memory.Usage), WorkingSet: value(c.Memory.WorkingSet), RSS: value(c.Memory.RSS),
		PageFaults: value(c.Memory.PageFaults), MajorPageFaults: value(c.Memory.MajorPageFaults), Swap: c.Swap.Used,
	}
	if c.Memory.Available != nil {
		m.Limit = new(*c.Memory.Available + m.WorkingSet)
	}
	u.Memory = m
	return u
}
