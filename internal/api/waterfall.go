package api

import "time"

// Waterfall has the phases of the start of a pod. A pod that ran before the agent started has none,
// and neither has a pod whose start has not begun.
type Waterfall struct {
	Seen   time.Time `json:"seen"` // when the agent first saw the pod
	Phases []Phase   `json:"phases"`
	Done   bool      `json:"done"` // the pod is ready, or has ended
}

// Phase is a phase of the start of a pod. Phases may overlap.
type Phase struct {
	Name      string     `json:"name"` // queue, volumes, pull, sandbox, create, start, ready
	Container string     `json:"container,omitempty"`
	Start     time.Time  `json:"start"`
	End       *time.Time `json:"end,omitempty"` // nil while the phase goes on
}
