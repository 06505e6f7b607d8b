package probe

import (
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth/internal/lib/pod"
)

// The functions of this file are pure: they read no clock and take no lock.

// kind is the kind of a probe.
type kind int

const (
	startup kind = iota
	liveness
	readiness
	kinds // the number of kinds
)

// String returns the kind for events and metrics.
func (k kind) String() string {
	return [kinds]string{"Startup", "Liveness", "Readiness"}[k]
}

// phrase returns the kind for use in a sentence.
func (k kind) phrase() string {
	return [kinds]string{"startup probe", "liveness probe", "readiness probe"}[k]
}

// of returns the probe of that kind that a container has, or nil.
func (k kind) of(c *v1.Container) *v1.Probe {
	return [kinds]*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe}[k]
}

// settings are the durations and thresholds of a probe, with defaults.
type settings struct {
	delay, period, timeout time.Duration
	successes, failures    int // thresholds: consecutive checks
}

func settingsOf(p *v1.Probe) settings {
	seconds := func(n, otherwise int32) time.Duration { return time.Duration(orDefault(n, otherwise)) * time.Second }
	return settings{
		delay:     seconds(p.InitialDelaySeconds, 0),
		period:    seconds(p.PeriodSeconds, 10),
		timeout:   seconds(p.TimeoutSeconds, 1),
		successes: orDefault(p.SuccessThreshold, 1),
		failures:  orDefault(p.FailureThreshold, 3),
	}
}

func orDefault(n, otherwise int32) int {
	if n <= 0 {
		n = otherwise
	}
	return int(n)
}

// tally counts consecutive checks with one outcome. An Unknown check does not reset the count.
type tally struct {
	last     Outcome
	row      int
	unknowns int
}

// add counts a check, and returns the number of consecutive ones with its outcome.
func (t *tally) add(o Outcome) int {
	if o == Unknown {
		t.unknowns++
		return t.unknowns
	}
	t.unknowns = 0
	if o != t.last {
		t.last, t.row = o, 0
	}
	t.row++
	return t.row
}

// applyResult returns the health of a container after a result of its probe of kind k.
func applyResult(h pod.Health, k kind, spec *v1.Probe, r Result) pod.Health {
	rules := settingsOf(spec)
	good := r.Outcome == Success && r.InARow >= rules.successes
	bad := r.Outcome == Failure && r.InARow >= rules.failures
	switch {
	case k == readiness && (good || bad):
		h.Ready = &good
	case k == startup && good:
		h.Started = &good
	case k != readiness && bad:
		h.Dead = k.phrase() + " failed: " + r.Output
		h.Grace = spec.TerminationGracePeriodSeconds
	}
	return h
}

// differs reports whether two healths differ. The reason of a dead container does not change any more.
func differs(a, b pod.Health) bool {
	return ptr.Deref(a.Started, false) != ptr.Deref(b.Started, false) || ptr.Deref(a.Ready, false) != ptr.Deref(b.Ready, false) || a.Dead != b.Dead
}

// fitToSpec returns h with values for the probes that c has, and without values for others. A
// container without a result has neither started nor is it ready.
func fitToSpec(h pod.Health, c *v1.Container) pod.Health {
	answer := func(known *bool, p *v1.Probe) *bool {
		switch {
		case p == nil:
			return nil
		case known == nil:
			return new(bool)
		default:
			return known
		}
	}
	h.Started, h.Ready = answer(h.Started, c.StartupProbe), answer(h.Ready, c.ReadinessProbe)
	return h
}

// isNeeded reports whether a probe of kind k has to run. Until the startup probe has succeeded, no other
// runs. In a container that failed its liveness probe, or whose pod is being stopped, only the
// readiness probe runs.
func isNeeded(k kind, h pod.Health, stopping bool) bool {
	started := h.Started == nil || *h.Started
	switch k {
	case startup:
		return !started && h.Dead == "" && !stopping
	case liveness:
		return started && h.Dead == "" && !stopping
	default:
		return started
	}
}

// maxSpread bounds the wait for the first check after a restart of the agent, for containers that were
// not ready.
const maxSpread = 10 * time.Second

// startOffset returns the offset of a probe in its period, by a hash, so that after a restart of the
// agent the probes of a node do not all run at the same time.
func startOffset(uid pod.UID, container string, k kind, period time.Duration, known bool) time.Duration {
	if !known {
		period = min(period, maxSpread)
	}
	h := fnv.New64a()
	h.Write([]byte(string(uid) + "/" + container + "/" + k.String()))
	return time.Duration(h.Sum64() % uint64(period))
}

// nextRun returns the first time after now that is a whole number of periods after at.
func nextRun(at, now time.Time, period time.Duration) time.Time {
	late := max(now.Sub(at), 0)
	return at.Add(late - late%period + period)
}
