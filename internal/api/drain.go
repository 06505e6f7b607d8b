package api

import "time"

// DrainRequest has the options of a drain. They are in the query of the request.
type DrainRequest struct {
	Grace      *int64        // limit of the grace period of pods, in seconds; nil: none
	Timeout    time.Duration // how long to wait for the pods to end; 0: without a limit
	KeepStatic bool          // static pods are not stopped
}

// The query of a drain.
const (
	QueryGrace      = "grace"   // seconds
	QueryTimeout    = "timeout" // such as 5m
	QueryKeepStatic = "keepStatic"
)

// DrainStep is the type of a DrainEvent.
type DrainStep string

const (
	DrainBegan    DrainStep = "BEGAN"    // with the number of pods
	DrainStopping DrainStep = "STOPPING" // the stop of a pod was requested; Seconds is its grace period
	DrainStopped  DrainStep = "STOPPED"  // a pod has ended; Seconds is how long that took
	DrainLate     DrainStep = "LATE"     // the grace period of a pod is over, and it has not ended
	DrainDone     DrainStep = "DONE"     // the last event, with the pods that have not ended
	DrainFailed   DrainStep = "FAILED"   // the last event: the drain has failed
)

// DrainEvent is one line of the answer to a drain.
type DrainEvent struct {
	Step    DrainStep `json:"step"`
	Pods    int       `json:"pods,omitempty"`
	Pod     string    `json:"pod,omitempty"`     // namespace/name
	Seconds float64   `json:"seconds,omitempty"` // the grace period of Pod, or the time that its end took
	Left    []string  `json:"left,omitempty"`    // namespace/name of the pods that have not ended
	Error   string    `json:"error,omitempty"`
}
