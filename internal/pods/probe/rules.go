package probe

import (
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// All that is decided here is decided without a clock and without a lock.

// kind is what a probe asks about.
type kind int

const (
	startup kind = iota
	liveness
	readiness
	kinds // how many there are
)

// String is the kind as it stands in events and metrics.
func (k kind) String() string {
	return [kinds]string{"Startup", "Liveness", "Readiness"}[k]
}

// phrase is the kind within a sentence.
func (k kind) phrase() string {
	return [kinds]string{"startup probe", "liveness probe", "readiness probe"}[k]
}

// of returns the probe of that kind that a container has, or nil.
func (k kind) of(c *v1.Container) *v1.Probe {
	return [kinds]*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe}[k]
}

// settings are the numbers of a probe.
type settings struct {
	delay, period, timeout time.Duration
	successes, failures    int // how many in a row it takes
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

// tally counts checks that ended alike. One that could not be made breaks no row.
type tally struct {
	last     Outcome
	row      int
	unknowns int
}

// add counts one more and returns how many there are of it in a row.
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

// applyResult returns the health of a container whose probe of kind k has had this
// result.
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

// differs tells whether a and b say different things. Why a container is dead
// does not change any more.
func differs(a, b pod.Health) bool {
	return isTrue(a.Started) != isTrue(b.Started) || isTrue(a.Ready) != isTrue(b.Ready) || a.Dead != b.Dead
}

func isTrue(b *bool) bool { return b != nil && *b }

// fitToSpec makes h say something about those questions that c has a probe for, and
// nothing about others. Until it is known, a container has neither started nor is
// it ready.
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

// isNeeded tells whether there is anything to find out by a probe of kind k. A
// container that is to start first is not asked anything else; one that was given
// up, or whose pod is being stopped, is only asked whether it is ready.
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

// maxSpread bounds how long a container that is not known to be well has to wait
// after a restart of the agent.
const maxSpread = 10 * time.Second

// startOffset is where in its period a probe has its place, so that the probes of a node
// that were all begun at the same moment are not all made at the same moment.
func startOffset(uid pod.UID, container string, k kind, period time.Duration, known bool) time.Duration {
	if !known {
		period = min(period, maxSpread)
	}
	h := fnv.New64a()
	h.Write([]byte(string(uid) + "/" + container + "/" + k.String()))
	return time.Duration(h.Sum64() % uint64(period))
}

// nextRun is the first moment after now that is a whole number of periods after at.
func nextRun(at, now time.Time, period time.Duration) time.Time {
	late := max(now.Sub(at), 0)
	return at.Add(late - late%period + period)
}
