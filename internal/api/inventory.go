package api

import "time"

// The paths of the node, its images and volumes, and of details of pods.
//
//	GET /v1/node                                    v1.Node
//	GET /v1/images                                  ImageList
//	GET /v1/volumes                                 VolumeList
//	GET /v1/namespaces/{ns}/pods/{name}/probes      ProbeList
//	GET /v1/namespaces/{ns}/pods/{name}/waterfall   Waterfall

// ImageList has all images of the runtime.
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
	Pods    []string `json:"pods,omitempty"` // namespace/name of the pods that use the image
}

// VolumeList has the volumes of all pods.
type VolumeList struct {
	Items []Volume `json:"items"`
}

// Volume is a volume of a pod. Capacity and Used are left out if they are not known, or expensive
// to measure.
type Volume struct {
	Namespace string     `json:"namespace"`
	Pod       string     `json:"pod"`
	UID       string     `json:"uid"` // of the pod
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`   // such as emptyDir
	Source    string     `json:"source"` // name of an object, path or server
	Path      string     `json:"path,omitempty"`
	Since     *time.Time `json:"since,omitempty"` // when it was set up
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
	// Ended: the result is of a container that has ended. Its successor has no result yet.
	Ended bool `json:"ended,omitempty"`
}
