package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// standaloneTimeout bounds the answers of the runtime and of the sync loop when a user asks for the Node.
const standaloneTimeout = 5 * time.Second

// StandaloneConfig configures a Standalone. All fields are required.
type StandaloneConfig struct {
	Settings  Settings
	Machine   func() (Machine, error)
	Addresses func() ([]string, error)
	// Runtime reads the facts of the container runtime, and Status whether it and its network are ready.
	Runtime func(context.Context) (Runtime, error)
	Status  func(context.Context) (RuntimeStatus, error)
	// Unanswered are the calls that concern the whole node and have no answer yet.
	Unanswered func() []HungCall
	// Alive waits for an answer of the sync loop. It fails if there is none before ctx ends.
	Alive func(context.Context) error
	// Closed returns why this node takes no pods; nil: it takes pods.
	Closed func() error
}

// Standalone makes the Node of a machine that is in no cluster. Users see it; it is stored nowhere.
type Standalone struct {
	StandaloneConfig
	started time.Time

	mu          sync.Mutex
	lastStatus  v1.NodeStatus // for the transition times in it
	lastRuntime Runtime       // what the runtime said last of itself
}

// NewStandalone checks the configuration. The Node is as old as the Standalone.
func NewStandalone(c StandaloneConfig) (*Standalone, error) {
	if c.Machine == nil || c.Addresses == nil || c.Runtime == nil || c.Status == nil || c.Unanswered == nil || c.Alive == nil || c.Closed == nil {
		return nil, errors.New("node: machine, addresses, runtime, status, unanswered, alive and closed are required of a standalone node")
	}
	return &Standalone{StandaloneConfig: c, started: time.Now()}, nil
}

// Node reads the machine and the runtime, and returns the Node.
func (s *Standalone) Node(ctx context.Context) (*v1.Node, error) {
	m, err := s.Machine()
	if err != nil && m.Memory == 0 {
		return nil, fmt.Errorf("look at this machine: %w", err)
	}
	facts := Facts{Machine: m}
	if facts.Addresses, err = s.Addresses(); err != nil {
		return nil, err
	}
	var health Health
	facts.Runtime, health = s.askRuntime(ctx)
	health.Shutdown = s.Closed()
	now := time.Now()
	out := Build(facts, s.Settings, health, now)
	out.CreationTimestamp = metav1.NewTime(s.started)
	out.Spec.Unschedulable = health.Shutdown != nil // without a cluster, a drain is the only thing that cordons the node

	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStatus = Status(facts, s.Settings, health, s.lastStatus, now)
	out.Status = *s.lastStatus.DeepCopy()
	return out, nil
}

// askRuntime reads the facts of the runtime, and the health of the runtime and the sync loop. If the
// runtime does not answer within standaloneTimeout, the facts are the last known ones.
func (s *Standalone) askRuntime(ctx context.Context) (Runtime, Health) {
	asking, cancel := context.WithTimeout(ctx, standaloneTimeout)
	defer cancel()
	var health Health
	facts, err := s.Runtime(asking)
	if err == nil {
		var status RuntimeStatus
		if status, err = s.Status(asking); err == nil {
			health.Runtime, health.Network = status.Runtime, status.Network
		}
	}
	silence := HangTimeout
	if err != nil {
		health.Runtime, silence = err, standaloneTimeout
	}
	if hung := Hung(s.Unanswered(), time.Now(), silence); hung != nil {
		health.Runtime = hung
	}
	loop, cancelLoop := context.WithTimeout(ctx, standaloneTimeout)
	defer cancelLoop()
	health.SyncLoop = s.Alive(loop)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || s.lastRuntime.Name == "" {
		s.lastRuntime = facts
	}
	return s.lastRuntime, health
}
