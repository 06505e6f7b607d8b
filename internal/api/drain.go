package api

import "time"

// DrainRequest has the options of a drain. They are in the query of the request.
type DrainRequest struct {
	Grace      *int64        // how many seconds a pod may take at most; nil: as many as it asks for
	Timeout    time.Duration // how long to wait for all of them; 0: for as long as it takes
	KeepStatic bool          // static pods go on
}

// The query of a drain.
const (
	QueryGrace      = "grace"   // seconds
	QueryTimeout    = "timeout" // such as 5m
	QueryKeepStatic = "keepStatic"
)

// DrainStep says what a DrainEvent tells.
type DrainStep string

const (
	DrainBegan    DrainStep = "BEGAN"    // with the number of pods
	DrainStopping DrainStep = "STOPPING" // the stop of a pod was requested, and it has so much time
	DrainStopped  DrainStep = "STOPPED"  // a pod has ended, and took so much time
	DrainLate     DrainStep = "LATE"     // the time of a pod is over, and it has not ended
	DrainDone     DrainStep = "DONE"     // the last event, with the pods that have not ended
	DrainFailed   DrainStep = "FAILED"   // the last event: the drain did not come to its end
)

// DrainEvent is one line of the answer to a drain.
type DrainEvent struct {
	Step    DrainStep `json:"step"`
	Pods    int       `json:"pods,omitempty"`
	Pod     string    `json:"pod,omitempty"`     // namespace/name
	Seconds float64   `json:"seconds,omitempty"` // that it has, or took
	Left    []string  `json:"left,omitempty"`    // namespace/name of each
	Error   string    `json:"error,omitempty"`
}
