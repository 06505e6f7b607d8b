package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/cri"
)

// runtimeStats are the runtime's stats of containers, by their IDs, and of its file systems.
type runtimeStats struct {
	at         time.Time
	containers map[string]cri.ContainerStats
	places     cri.Filesystems
}

const (
	// usageMaxAge is how old the runtime's stats may be if the usage of containers is taken from
	// them, and filesMaxAge if only the size of their writable layers is.
	usageMaxAge = 5 * time.Second
	filesMaxAge = 30 * time.Second
	// readerTimeout is how long a reader waits for stats if there are none, and callTimeout
	// how long the calls to the runtime may take.
	readerTimeout = 2 * time.Second
	callTimeout   = 20 * time.Second
)

// runtimeUsage reads the runtime's stats in a goroutine, one call at a time: with many containers
// a call takes long.
type runtimeUsage struct {
	runtime Runtime
	group   *run.Group
	log     *slog.Logger

	mu     sync.Mutex
	last   runtimeStats
	asking chan struct{} // closed when the call that runs is over; nil: none does
	streak logonce.Streak
}

func newRuntimeUsage(group *run.Group, r Runtime, log *slog.Logger) *runtimeUsage {
	return &runtimeUsage{runtime: r, group: group, log: log}
}

// get returns the newest stats, and begins to read them again if they are older than atMost. It
// waits for that only if they are older than twice atMost.
func (u *runtimeUsage) get(ctx context.Context, atMost time.Duration) runtimeStats {
	u.mu.Lock()
	age := time.Since(u.last.at)
	if age > atMost && u.asking == nil {
		u.asking = make(chan struct{})
		u.group.Go("usage from the runtime", u.refresh)
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
		if u.streak.Recovered() {
			u.log.Info("the runtime reports the usage of containers again")
		}
	case ctx.Err() == nil && u.streak.Failed(time.Now()):
		u.log.Warn("the runtime does not report the usage of containers", "err", err)
	}
}

// readRuntime returns the runtime's stats if the scope, or a container without a known cgroup,
// needs them.
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

// runtimeReported returns the usage of a container from the runtime's stats.
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
