// Package hostports keeps apart the host ports of pods of several agents on one machine: each agent
// records the ports of its pods, and admits no pod that wants a port of another agent's.
package hostports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/host/roots"
	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
)

// Registry holds the host ports of the pods of all agents of the machine.
type Registry interface {
	ForeignPorts(owner roots.Owner) (map[string][]roots.HostPort, error)
	RecordPorts(owner roots.Owner, ports []roots.HostPort) error
}

// Pods are the pods of this agent.
type Pods interface {
	Synced() <-chan struct{}
	Watch(ctx context.Context) <-chan struct{}
	Since(version uint64) pod.Changes
}

// Config configures a Recorder.
type Config struct {
	Registry Registry
	Owner    roots.Owner
	Log      *slog.Logger
}

// Recorder records the host ports of this agent's pods, and reads those of other agents.
type Recorder struct {
	cfg Config

	mu      sync.Mutex
	reading logonce.Streak // failures to read the records of other agents
}

// New returns a Recorder.
func New(c Config) (*Recorder, error) {
	if c.Registry == nil || c.Log == nil {
		return nil, errors.New("hostports: registry and log are required")
	}
	return &Recorder{cfg: c}, nil
}

// Foreign returns the ports that pods of other agents occupy. Records that can't be read are
// left out: two pods with the same port are better than none.
func (r *Recorder) Foreign() []admit.ForeignPort {
	taken, err := r.cfg.Registry.ForeignPorts(r.cfg.Owner)
	r.mu.Lock()
	if err != nil && r.reading.Failed(time.Now()) {
		r.cfg.Log.Warn("host ports of pods of other agents are not known", "err", err)
	}
	if err == nil {
		r.reading.Recovered()
	}
	r.mu.Unlock()
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

// retryBackoff is the time until a record that failed is repeated.
var retryBackoff = backoff.Exponential{First: time.Second, Max: time.Minute}

// Run records the ports of pods whenever they change, until ctx ends. A record that failed is repeated. Until all sources have sent
// their pods, the record of the agent before this one stands.
func (r *Recorder) Run(ctx context.Context, pods Pods) {
	select {
	case <-pods.Synced():
	case <-ctx.Done():
		return
	}
	changed := pods.Watch(ctx)
	held := map[pod.UID][]roots.HostPort{}
	var version uint64
	var recorded []roots.HostPort
	known := false // recorded is what the registry has
	var failures logonce.Streak
	failed := 0 // in a row
	for {
		changes := pods.Since(version)
		version = changes.Version
		update(held, changes)
		now := flatten(held)
		var retry <-chan time.Time
		if !known || !slices.Equal(now, recorded) {
			if err := r.cfg.Registry.RecordPorts(r.cfg.Owner, now); err != nil {
				failed++
				retry = time.After(retryBackoff.After(failed))
				if failures.Failed(time.Now()) {
					r.cfg.Log.Warn("other agents of this machine do not know the host ports of pods", "err", err)
				}
			} else {
				failures.Recovered()
				recorded, known, failed = now, true, 0
			}
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// update applies changes of pods to the ports that they hold. A pod that has ended holds none.
func update(held map[pod.UID][]roots.HostPort, changes pod.Changes) {
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
