package oom

import (
	"fmt"
	"sync"
	"time"

	"berth/internal/host/kernel"
)

// maxContainers bounds the containers whose last victim is remembered.
const maxContainers = 1000

// Victims remembers the last victim of each container, for the message of the container once it has ended. It does not
// survive the agent: the event of the victim does.
type Victims struct {
	mu         sync.Mutex
	containers map[string]*kills // by the id of the container
	order      []string          // ids, the oldest first
}

// kills are the victims of one container.
type kills struct {
	last     kernel.Victim
	count    int
	recorded time.Time // the last event
}

// NewVictims returns an empty memory.
func NewVictims() *Victims { return &Victims{containers: map[string]*kills{}} }

// Message describes the victims of a container; empty: none is known.
func (m *Victims) Message(containerID string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.containers[containerID]
	if k == nil {
		return ""
	}
	if k.count == 1 {
		return describe(k.last)
	}
	return fmt.Sprintf("%s. It killed %d processes of this container", describe(k.last), k.count)
}

// add keeps a victim, and reports whether an event of its container is due.
func (m *Victims) add(containerID string, v kernel.Victim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.containers[containerID]
	if k == nil {
		if len(m.order) == maxContainers {
			delete(m.containers, m.order[0])
			m.order = m.order[1:]
		}
		k = &kills{}
		m.containers[containerID] = k
		m.order = append(m.order, containerID)
	}
	k.last = v
	k.count++
	due := k.recorded.IsZero() || time.Since(k.recorded) >= eventInterval
	if due {
		k.recorded = time.Now()
	}
	return due
}
