package metrics

import (
	"sync/atomic"
	"time"
)

// startup holds the times of the registration of this node in its cluster: its beginning, and its end. They are
// in nanoseconds since 1970; 0: not yet.
type startup struct {
	began              time.Time // the agent
	joined, registered atomic.Int64
}

// RegistrationStarted and Registered are called when the agent begins to register its node, and when the
// cluster has it. Only the first call counts.
func (m *Metrics) RegistrationStarted(at time.Time) {
	m.startup.joined.CompareAndSwap(0, at.UnixNano())
}

func (m *Metrics) Registered(at time.Time) { m.startup.registered.CompareAndSwap(0, at.UnixNano()) }

func (p present) startup(emit emitFunc) {
	s := &p.pages.Metrics.startup
	joined, registered := s.joined.Load(), s.registered.Load()
	if joined != 0 {
		emit("kubelet_node_startup_pre_registration_duration_seconds", "Time from the start of the agent until it began to register its node.",
			time.Unix(0, joined).Sub(s.began).Seconds())
	}
	if joined != 0 && registered != 0 {
		emit("kubelet_node_startup_registration_duration_seconds", "Time that it took to register the node, or to find that it is.",
			time.Duration(registered-joined).Seconds())
	}
}
