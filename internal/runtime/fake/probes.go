package fake

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Probes implements execute.Probes with the results of SetHealth.
type Probes struct {
	mu     sync.Mutex
	health map[string]pod.Health
}

// SetHealth sets the results of the probes of a container.
func (p *Probes) SetHealth(containerID string, h pod.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.health == nil {
		p.health = map[string]pod.Health{}
	}
	p.health[containerID] = h
}

// Health implements execute.Probes.
func (p *Probes) Health(containerID string) pod.Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.health[containerID]
}

// Watch implements execute.Probes.
func (p *Probes) Watch(*v1.Pod, pod.Observed) {}

// Stop implements execute.Probes.
func (p *Probes) Stop(pod.UID) {}

// Forget implements execute.Probes.
func (p *Probes) Forget(pod.UID) {}
