package metrics

import (
	"sync/atomic"
	"time"
)

// startup holds the times of the registration of this node in its cluster: its beginning, its end, and when the node
// was ready. They are in nanoseconds since 1970; 0: not yet.
type startup struct {
	began                     time.Time // the agent
	joined, registered, ready atomic.Int64
}

// RegistrationStarted and Registered are called when the agent begins to register its node, and when the
// cluster has it. Only the first call counts.
func (m *Metrics) RegistrationStarted(at time.Time) {
	m.startup.joined.CompareAndSwap(0, at.UnixNano())
}

func (m *Metrics) Registered(at time.Time) { m.startup.registered.CompareAndSwap(0, at.UnixNano()) }

// NodeReady is called when the cluster has a Node that is ready. Only the first call counts.
func (m *Metrics) NodeReady(at time.Time) { m.startup.ready.CompareAndSwap(0, at.UnixNano()) }

func (p present) startup(emit emitFunc) {
	s := &p.pages.Metrics.startup
	joined, registered, ready := s.joined.Load(), s.registered.Load(), s.ready.Load()
	booted := p.pages.Booted
	if joined != 0 {
		emit("kubelet_node_startup_pre_registration_duration_seconds", "Time from the start of the agent until it began to register its node.",
			time.Unix(0, joined).Sub(s.began).Seconds())
	}
	if joined != 0 && registered != 0 {
		emit("kubelet_node_startup_registration_duration_seconds", "Time that it took to register the node, or to find that it is.",
			time.Duration(registered-joined).Seconds())
	}
	if joined != 0 && !booted.IsZero() {
		emit("kubelet_node_startup_pre_kubelet_duration_seconds", "Time from the start of the machine until the agent started.", s.began.Sub(booted).Seconds())
	}
	if registered != 0 && ready != 0 {
		emit("kubelet_node_startup_post_registration_duration_seconds", "Time from the registration of the node until it was ready.",
			max(0, time.Duration(ready-registered)).Seconds())
	}
	if ready != 0 && !booted.IsZero() {
		emit("kubelet_node_startup_duration_seconds", "Time from the start of the machine until the node was ready.", time.Unix(0, ready).Sub(booted).Seconds())
	}
}
