package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// container is one that is probed. All of it is the Manager's, under its lock.
type container struct {
	id        string
	uid       pod.UID
	startedAt time.Time

	// As of the last Watch.
	pod  *v1.Pod
	spec *v1.Container
	ip   string

	health pod.Health    // what is known
	shown  pod.Health    // what of it may be read: it is on disk
	probes [kinds]*probe // nil: it has none of that kind
}

// results are the last ones of the probes that have any.
func (c *container) results() []Result {
	var out []Result
	for _, p := range c.probes {
		if p != nil && !p.last.At.IsZero() {
			out = append(out, p.last)
		}
	}
	return out
}

// probe is in one of three places: it waits in the queue for its turn, it runs, or
// there is nothing for it to find out (neither).
type probe struct {
	of   *container
	kind kind

	at      time.Time // its turn, or the last one that it had
	running bool
	cancel  context.CancelFunc // of the check that runs

	tally tally
	last  Result
}

// Watch is told the newest of a pod. Containers that run and have probes are
// probed from then on, those that are gone are forgotten. It never blocks, and
// nothing comes of telling it twice. Health knows about a container once it was
// watched, so Watch goes before whatever reads Health.
func (m *Manager) Watch(p *v1.Pod, have pod.Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[string]bool{}
	for _, spec := range probed(p) {
		c := have.Container(spec.Name)
		if c == nil || c.State == pod.ContainerExited {
			continue
		}
		// One whose state could not be read keeps what is known of it.
		there[c.ID] = true
		if c.State == pod.ContainerRunning && !c.Starting {
			m.watch(p, spec, c, m.podIP(p, have))
		}
	}
	m.forget(p.UID, there)
}

// Stop says that a pod is being stopped. Nobody asks whether it lives any more;
// whether it is ready is asked until its containers are gone.
func (m *Manager) Stop(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.watchedPod(uid)
	w.stopping = true
	for _, c := range w.containers {
		m.scheduleAll(c, false)
	}
}

// Forget says that a pod is gone.
func (m *Manager) Forget(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(uid, nil)
	delete(m.pods, uid)
}

// probed returns the containers of p that have probes. Among init containers only
// those that stay have any.
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

// watch takes in the newest of one container. The caller holds the lock.
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
	// One that is older than the manager ran before the agent was restarted, and
	// so did all the others.
	m.scheduleAll(c, isNew && c.startedAt.Before(m.startedAt))
}

// scheduleAll gives each probe of c the place that it belongs to. If they are to be
// spread, their first turns are. The caller holds the lock.
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

// untilFirst is how long it takes until the first turn of a probe.
func untilFirst(c *container, k kind, now time.Time, spread bool) time.Duration {
	r := settingsOf(k.of(c.spec))
	// The clock may have been set back since the container started.
	wait := min(max(c.startedAt.Add(r.delay).Sub(now), 0), r.delay)
	if spread {
		wellSoFar := k == liveness || isTrue(c.health.Ready)
		wait = max(wait, startOffset(c.uid, c.spec.Name, k, r.period, wellSoFar))
	}
	return wait
}

// schedule puts a probe into the queue.
func (m *Manager) schedule(p *probe, at time.Time) {
	p.at = at
	m.queue.Put(p)
	if first, _ := m.queue.First(); first == p {
		signal(m.queueChanged)
	}
}

// unschedule takes a probe out of wherever it is. If it runs, its result will not count.
func (m *Manager) unschedule(p *probe) {
	if !m.queue.Remove(p) && p.cancel != nil {
		p.cancel()
	}
}

// forget drops what is known of the containers of a pod that are not there any
// more. The caller holds the lock.
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
	signal(m.saveNeeded)
}

// signal never waits: one that is already there says the same.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
