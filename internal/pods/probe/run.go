package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
)

// checkRequest is the input of one check. It is not modified.
type checkRequest struct {
	kind   kind
	probe  *v1.Probe
	target handler.Target
}

// runProbe runs a probe once: check, result, events, next time.
func (m *Manager) runProbe(ctx context.Context, p *probe) {
	// The result is published even if it ends the probe, so publish gets the outer context.
	checkCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if q, ok := m.startCheck(p, cancel); ok {
		a, took := m.check(checkCtx, q)
		if r, health, ok := m.recordResult(checkCtx, p, q, a); ok {
			m.publish(ctx, q, a, r, health, took)
		}
	}
	m.reschedule(p)
}

// startCheck returns the request of a check, or false if the probe need not run any more.
func (m *Manager) startCheck(p *probe, cancel context.CancelFunc) (checkRequest, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := p.of
	if !m.isWatched(p) || !isNeeded(p.kind, c.health, m.pods[c.uid].stopping) {
		return checkRequest{}, false
	}
	p.cancel = cancel
	return checkRequest{
		kind: p.kind, probe: p.kind.of(c.spec),
		target: handler.Target{Pod: c.pod, Container: c.spec, ContainerID: c.id, PodIP: c.ip},
	}, true
}

// isWatched reports whether p is still a probe of a container that is watched.
func (m *Manager) isWatched(p *probe) bool {
	c := p.of
	return m.containers[c.id] == c && c.probes[p.kind] == p
}

// recordResult adds the result of a check to the health of the container, unless the probe was
// canceled. It returns the new health if it has changed.
func (m *Manager) recordResult(ctx context.Context, p *probe, q checkRequest, a checkResult) (Result, *pod.Health, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil || !m.isWatched(p) {
		return Result{}, nil, false
	}
	p.last = Result{Kind: q.kind.String(), At: time.Now(), Outcome: a.outcome, Output: a.output, InARow: p.tally.add(a.outcome)}
	delete(m.pods[p.of.uid].before, p.of.spec.Name)
	was := p.of.health
	p.of.health = applyResult(was, q.kind, q.probe, p.last)
	if !differs(was, p.of.health) {
		return p.last, nil, true
	}
	m.markStale()
	return p.last, new(p.of.health), true
}

// reschedule puts the probe back into the queue.
func (m *Manager) reschedule(p *probe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.running, p.cancel = false, nil
	if m.isWatched(p) {
		m.scheduleAll(p.of, false)
	}
}

// publish passes a result to metrics and events and, if it changed the health, to the agent's loop.
func (m *Manager) publish(ctx context.Context, q checkRequest, a checkResult, r Result, changed *pod.Health, took time.Duration) {
	if changed != nil {
		m.commit() // before it is published; saveLoop retries if it fails
	}
	t := q.target
	if m.config.OnCheck != nil {
		m.config.OnCheck(t.Pod, t.Container.Name, r.Kind, r.Outcome, took)
	}
	switch {
	case r.Outcome == Failure:
		m.warn(t, "Unhealthy", r.Kind+" probe failed: "+r.Output)
	case r.Outcome == Unknown:
		m.warn(t, "Unhealthy", r.Kind+" probe errored and resulted in unknown state: "+r.Output)
	case a.warning:
		m.warn(t, "ProbeWarning", r.Kind+" probe warning: "+r.Output)
	}
	if changed == nil {
		return
	}
	m.config.Log.Debug("a probe changed what is known of a container", "pod", pod.Ref(t.Pod), "container", t.Container.Name,
		"probe", r.Kind, "result", r.Outcome, "inARow", r.InARow, "output", r.Output)
	select {
	case m.results[q.kind] <- pod.ProbeResult{UID: t.Pod.UID, ContainerID: t.ContainerID, Success: r.Outcome == Success}:
	case <-ctx.Done():
	}
}

func (m *Manager) warn(t handler.Target, reason, message string) {
	m.config.Events.RecordContainer(t.Pod, t.Container.Name, v1.EventTypeWarning, reason, message)
}
