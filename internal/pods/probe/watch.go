package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// container is a probed container. It is guarded by the lock of the Manager.
type container struct {
	id        string
	uid       pod.UID
	startedAt time.Time

	// As of the last Watch.
	pod  *v1.Pod
	spec *v1.Container
	ip   string

	health pod.Health    // by all results
	shown  pod.Health    // as far as it is in the state file; returned by Health
	probes [kinds]*probe // nil: no probe of that kind
}

// results returns the last results of the probes that have one.
func (c *container) results() []Result {
	var out []Result
	for _, p := range c.probes {
		if p != nil && !p.last.At.IsZero() {
			out = append(out, p.last)
		}
	}
	return out
}

// probe is one probe of a container. It waits in the queue, or runs, or does neither while it is not
// needed.
type probe struct {
	of   *container
	kind kind

	at      time.Time // of its next run, or of the last one
	running bool
	cancel  context.CancelFunc // of the running check

	tally tally
	last  Result
}

// Watch updates the probes of a pod: running containers with probes are probed from then on, those
// that are gone are removed. It never blocks, and is idempotent. It has to be called before Health for
// a new container.
func (m *Manager) Watch(p *v1.Pod, have pod.Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[string]bool{}
	for _, spec := range probed(p) {
		c := have.Container(spec.Name)
		if c == nil || c.State == pod.ContainerExited {
			continue
		}
		// A container whose state could not be read keeps its results.
		there[c.ID] = true
		if c.State == pod.ContainerRunning && !c.Starting {
			m.watch(p, spec, c, m.podIP(p, have))
		}
	}
	m.forget(p.UID, there)
}

// Stop says that a pod is being stopped. Only its readiness probes go on, until its containers are
// gone.
func (m *Manager) Stop(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.watchedPod(uid)
	w.stopping = true
	for _, c := range w.containers {
		m.scheduleAll(c, false)
	}
}

// Forget removes a pod that is gone.
func (m *Manager) Forget(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(uid, nil)
	delete(m.pods, uid)
}

// probed returns the containers of p that have probes. Among init containers only sidecars do.
func probed(p *v1.Pod) []*v1.Container {
	var out []*v1.Container
	add := func(c *v1.Container) {
		if c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil {
			out = append(out, c)
		}
	}
	for i := range p.Spec.InitContainers {
		if pod.IsSidecar(&p.Spec.InitContainers[i]) {
			add(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}

func (m *Manager) podIP(p *v1.Pod, have pod.Observed) string {
	if p.Spec.HostNetwork {
		return m.config.HostIP()
	}
	if s := have.Sandbox(); s != nil && len(s.IPs) > 0 {
		return s.IPs[0]
	}
	return ""
}

func (m *Manager) watchedPod(uid pod.UID) *podState {
	w := m.pods[uid]
	if w == nil {
		w = &podState{containers: map[string]*container{}, before: map[string][]Result{}}
		m.pods[uid] = w
	}
	return w
}

// watch updates the probes of one container. The caller holds the lock.
func (m *Manager) watch(p *v1.Pod, spec *v1.Container, seen *pod.Container, ip string) {
	c := m.containers[seen.ID]
	isNew := c == nil
	if isNew {
		h := m.saved[seen.ID].health()
		c = &container{id: seen.ID, uid: p.UID, startedAt: seen.StartedAt, health: h, shown: h}
		delete(m.saved, seen.ID)
		m.containers[c.id] = c
		m.watchedPod(p.UID).containers[c.id] = c
		m.markStale()
	}
	c.pod, c.spec = p, spec
	if ip != "" {
		c.ip = ip
	}
	c.health, c.shown = fitToSpec(c.health, spec), fitToSpec(c.shown, spec)
	for k := range kinds {
		switch has := k.of(spec) != nil; {
		case has && c.probes[k] == nil:
			c.probes[k] = &probe{of: c, kind: k}
		case !has && c.probes[k] != nil:
			m.unschedule(c.probes[k])
			c.probes[k] = nil
		}
	}
	// A container that is older than the Manager ran before the restart of the agent, like all others:
	// spread their checks.
	m.scheduleAll(c, isNew && c.startedAt.Before(m.startedAt))
}

// scheduleAll queues the probes of c that have to run, and removes the others. spread distributes
// their first runs. The caller holds the lock.
func (m *Manager) scheduleAll(c *container, spread bool) {
	now := time.Now()
	stopping := m.pods[c.uid].stopping
	for k, p := range c.probes {
		switch {
		case p == nil || p.running && isNeeded(kind(k), c.health, stopping):
		case !isNeeded(kind(k), c.health, stopping):
			m.unschedule(p)
		case m.queue.Has(p):
		case p.at.IsZero():
			m.schedule(p, now.Add(untilFirst(c, kind(k), now, spread)))
		default:
			m.schedule(p, nextRun(p.at, now, settingsOf(kind(k).of(c.spec)).period))
		}
	}
}

// untilFirst returns the time until the first run of a probe.
func untilFirst(c *container, k kind, now time.Time, spread bool) time.Duration {
	r := settingsOf(k.of(c.spec))
	// The clock may have been set back since the container started.
	wait := min(max(c.startedAt.Add(r.delay).Sub(now), 0), r.delay)
	if spread {
		healthy := k == liveness || ptr.Deref(c.health.Ready, false)
		wait = max(wait, startOffset(c.uid, c.spec.Name, k, r.period, healthy))
	}
	return wait
}

// schedule puts a probe into the queue.
func (m *Manager) schedule(p *probe, at time.Time) {
	p.at = at
	m.queue.Put(p)
	if first, _ := m.queue.First(); first == p {
		run.Notify(m.queueChanged)
	}
}

// unschedule removes a probe from the queue. If it runs, it is canceled, and its result is dropped.
func (m *Manager) unschedule(p *probe) {
	if !m.queue.Remove(p) && p.cancel != nil {
		p.cancel()
	}
}

// forget removes the containers of a pod that do not exist any more. The caller holds the lock.
func (m *Manager) forget(uid pod.UID, there map[string]bool) {
	for id, e := range m.saved {
		if e.Pod == uid && !there[id] {
			delete(m.saved, id)
			m.markStale()
		}
	}
	w := m.pods[uid]
	if w == nil {
		return
	}
	for id, c := range w.containers {
		if there[id] {
			continue
		}
		for _, p := range c.probes {
			if p != nil {
				m.unschedule(p)
			}
		}
		if last := c.results(); last != nil {
			w.before[c.spec.Name] = last
		}
		delete(w.containers, id)
		delete(m.containers, id)
		m.markStale()
	}
	if len(w.containers) == 0 && len(w.before) == 0 && !w.stopping {
		delete(m.pods, uid)
	}
}

// markStale says that the state file is out of date.
func (m *Manager) markStale() {
	m.stale.Store(true)
	run.Notify(m.saveNeeded)
}
