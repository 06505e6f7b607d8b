package api

import "time"

// Waterfall is how the start of a pod went: GET
// /v1/namespaces/{ns}/pods/{name}/waterfall. A pod that was up before the agent has
// none, and neither has one that was not begun with.
type Waterfall struct {
	Seen   time.Time `json:"seen"` // when the agent first saw the pod
	Phases []Phase   `json:"phases"`
	Done   bool      `json:"done"` // the pod is ready, or has ended
}

// Phase is one bar of a waterfall. Bars may overlap.
type Phase struct {
	Name      string     `json:"name"` // queue, volumes, pull, sandbox, create, start, ready
	Container string     `json:"container,omitempty"`
	Start     time.Time  `json:"start"`
	End       *time.Time `json:"end,omitempty"` // not there while it lasts
}
