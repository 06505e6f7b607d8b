package api

import "time"

// The paths of the objects on a node beside its pods. The node itself is a v1.Node.
//
//	GET /v1/node                                    v1.Node
//	GET /v1/images                                  ImageList
//	GET /v1/volumes                                 VolumeList
//	GET /v1/namespaces/{ns}/pods/{name}/probes      ProbeList
//	GET /v1/namespaces/{ns}/pods/{name}/waterfall   Waterfall

// ImageList is all images that the runtime has.
type ImageList struct {
	Items []Image `json:"items"`
}

// Image is an image of the runtime.
type Image struct {
	ID      string   `json:"id"`
	Tags    []string `json:"tags,omitempty"`
	Digests []string `json:"digests,omitempty"`
	Size    int64    `json:"size"` // bytes
	Pinned  bool     `json:"pinned,omitempty"`
	Pods    []string `json:"pods,omitempty"` // that use it, as namespace/name
}

// VolumeList is the volumes of pods.
type VolumeList struct {
	Items []Volume `json:"items"`
}

// Volume is one of a pod. What is not known, or would cost much to find out, is
// left out.
type Volume struct {
	Namespace string     `json:"namespace"`
	Pod       string     `json:"pod"`
	UID       string     `json:"uid"` // of the pod
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`   // such as emptyDir
	Source    string     `json:"source"` // what it is made from
	Path      string     `json:"path,omitempty"`
	Since     *time.Time `json:"since,omitempty"` // when it was made
	Capacity  *int64     `json:"capacity,omitempty"`
	Used      *int64     `json:"used,omitempty"`
}

// ProbeList has the last results of the probes of a pod.
type ProbeList struct {
	Items []ProbeResult `json:"items"`
}

// ProbeResult is the last result of a probe.
type ProbeResult struct {
	Container string    `json:"container"`
	Kind      string    `json:"kind"` // Startup, Liveness or Readiness
	At        time.Time `json:"at"`
	Outcome   string    `json:"outcome"`
	Output    string    `json:"output,omitempty"`
	InARow    int       `json:"inARow"`
	// Ended says that it is about a container that has ended. The one that takes its
	// place has not answered yet.
	Ended bool `json:"ended,omitempty"`
}
