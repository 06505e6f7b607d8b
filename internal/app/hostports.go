package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/core/agent"
	"berth/internal/host/roots"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
)

// hostPorts keeps apart the host ports of pods of several agents on this machine: each agent
// records the ports of its pods, and admits no pod that wants a port of another agent's.
type hostPorts struct {
	registry roots.Registry
	owner    roots.Owner
	log      *slog.Logger

	mu      sync.Mutex
	reading logonce.Streak // failures to read what others have recorded
}

func newHostPorts(owner roots.Owner, log *slog.Logger) (*hostPorts, error) {
	registry, err := newRegistry()
	if err != nil {
		return nil, err
	}
	return &hostPorts{registry: registry, owner: owner, log: log}, nil
}

// elsewhere returns the ports that pods of other agents occupy. Those that can't be read are
// left out: two pods with the same port are better than none.
func (h *hostPorts) elsewhere() []admit.ForeignPort {
	taken, err := h.registry.ForeignPorts(h.owner)
	h.mu.Lock()
	if err != nil && h.reading.Failed(time.Now()) {
		h.log.Warn("host ports of pods of other agents are not known", "err", err)
	}
	if err == nil {
		h.reading.Recovered()
	}
	h.mu.Unlock()
	var out []admit.ForeignPort
	for root, ports := range taken {
		for _, p := range ports {
			out = append(out, admit.ForeignPort{
				HostPort: admit.HostPort{Port: p.Port, Protocol: v1.Protocol(p.Protocol), IP: p.IP},
				By:       fmt.Sprintf("pod %s of the agent on %s", p.Pod, root),
			})
		}
	}
	return out
}

// run records the ports of this agent's pods whenever they change, until ctx ends. While a
// source has not told its pods, the record of the agent before this one stands.
func (h *hostPorts) run(ctx context.Context, a *agent.Agent) {
	select {
	case <-a.Synced():
	case <-ctx.Done():
		return
	}
	changed := a.Watch(ctx)
	held := map[pod.UID][]roots.HostPort{}
	var version uint64
	var recorded []roots.HostPort
	var failures logonce.Streak
	for first := true; ; first = false {
		changes := a.Since(version)
		version = changes.Version
		hold(held, changes)
		now := flatten(held)
		if first || !slices.Equal(now, recorded) {
			err := h.registry.RecordPorts(h.owner, now)
			if err != nil && failures.Failed(time.Now()) {
				h.log.Warn("other agents of this machine do not know the host ports of pods", "err", err)
			}
			if err == nil {
				failures.Recovered()
				recorded = now
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hold brings the ports by pod up to date. A pod that has ended holds none.
func hold(held map[pod.UID][]roots.HostPort, changes pod.Changes) {
	if changes.All {
		clear(held)
	}
	for _, uid := range changes.Gone {
		delete(held, uid)
	}
	for _, p := range changes.Pods {
		delete(held, p.UID)
		if pod.HasEnded(p) {
			continue
		}
		for _, port := range admit.HostPorts(p) {
			held[p.UID] = append(held[p.UID], roots.HostPort{Port: port.Port, Protocol: string(port.Protocol), IP: port.IP, Pod: pod.Ref(p)})
		}
	}
}

func flatten(held map[pod.UID][]roots.HostPort) []roots.HostPort {
	var out []roots.HostPort
	for _, ports := range held {
		out = append(out, ports...)
	}
	slices.SortFunc(out, func(x, y roots.HostPort) int {
		return cmp.Or(cmp.Compare(x.Port, y.Port), cmp.Compare(x.Protocol, y.Protocol), x.IP.Compare(y.IP), cmp.Compare(x.Pod, y.Pod))
	})
	return out
}
