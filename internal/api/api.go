// Package api groups the APIs of a node, and holds the types of the local one. It may be imported by
// the command line and the composition of the agent.
//
//	nodeapi     the kubelet's HTTPS API: exec, logs, metrics
//	localapi    the server on the local socket
//	client      the client of both, for the command line
//	find        which pod and container a user means
//	imagestore  pulls, loads and removes images for users
//	inventory   images and volumes, and the pods that use them
//
// Start reading at localapi.
//
// The local API is plain HTTP with JSON and text:
//
//	GET /v1/pods                              List
//	GET /v1/pods?watch=1                      a stream of Event, one per line
//	GET /v1/pods/{name}/log                   the log of a container, as text
//	GET /v1/namespaces/{ns}/pods/{name}/log   the same
//	GET /v1/events                            v1.EventList, what happened last is at the end
//	GET /v1/events?watch=1                    a stream of Event, one per line
//	POST /v1/drain                            a stream of DrainEvent, one per line, while pods are stopped
//	DELETE /v1/drain                          undoes that
//	POST /v1/pods/{name}/ephemeralcontainers  adds a v1.EphemeralContainer to a static pod that runs
//	GET /v1/version                           Version
//	GET /healthz                              ok, if all is well
//
// All other paths are those of the kubelet's API: /exec, /attach, /portForward and
// so on, as the node's HTTPS port has them.
//
// Pods are chosen with ?namespace= and ?name=, and events by the pod that they
// are of, with ?namespace=, ?pod= and ?uid=. A name is the pod's, or the manifest's,
// without the node's name at the end. An answer other than 200 has a
// body of one line of text that says what is wrong.
package api

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"runtime"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// SocketPath is where the server of a root directory listens.
func SocketPath(rootDir string) string { return filepath.Join(rootDir, "berth.sock") }

// SpareSocketPath is where the server of a root directory listens if no socket can be made
// there, because its disk is read-only or has no room for another file.
func SpareSocketPath(rootDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(rootDir)))
	return "/run/berth-" + hex.EncodeToString(sum[:8]) + ".sock"
}

// Group is the system's group whose members may talk to the server, and so are as good as
// root.
const Group = "berth"

// List is all pods, and the manifests that were refused.
type List struct {
	Pods    v1.PodList    `json:"pods"`
	Refused []pod.Refusal `json:"refused"`
}

// EventType says what an Event tells.
type EventType string

const (
	// Added, Modified and Deleted tell of a pod. The first two also tell of what
	// happened to a pod, for the first time and again.
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	// Refused says that a manifest could not be used, and Resolved that this refusal no
	// longer stands.
	Refused  EventType = "REFUSED"
	Resolved EventType = "RESOLVED"
	// Synced comes once, after the events that tell the state at the beginning.
	Synced EventType = "SYNCED"
)

// Event is one line of a watch. A watch tells the state as it is, not each step
// to it: changes that come faster than they are read are sent as one.
type Event struct {
	Type    EventType    `json:"type"`
	Pod     *v1.Pod      `json:"pod,omitempty"`
	Refusal *pod.Refusal `json:"refusal,omitempty"`
	Event   *v1.Event    `json:"event,omitempty"`
}

// Version is the build information of a berth binary.
type Version struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// NewVersion describes this binary, which was built as version.
func NewVersion(version string) Version {
	return Version{Version: version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// The query of a log request.
const (
	QueryContainer  = "container"
	QueryFollow     = "follow"
	QueryPrevious   = "previous"
	QueryID         = "id"    // of one instance of the container, as its status has it
	QueryTail       = "tail"  // a number of lines
	QuerySince      = "since" // a time as of RFC 3339, or an age such as 5m
	QueryTimestamps = "timestamps"
	QueryLimitBytes = "limitBytes"
)

// Headers of a log answer. ErrorTrailer comes after the text, and says why it
// ended early.
const (
	HeaderContainer  = "Berth-Container"  // whose log it is
	HeaderContainers = "Berth-Containers" // all that the pod has, if none was named
	ErrorTrailer     = "Berth-Error"
)
