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
//	GET /v1/events                            v1.EventList, the latest event at the end
//	GET /v1/events?watch=1                    a stream of Event, one per line
//	POST /v1/drain                            a stream of DrainEvent, one per line, while pods are stopped
//	DELETE /v1/drain                          undoes a drain
//	POST /v1/pods/{name}/ephemeralcontainers  adds a v1.EphemeralContainer to a static pod that runs
//	GET /v1/version                           Version
//	GET /healthz                              ok, if all health checks pass
//
// All other paths are those of the kubelet's API: /exec, /attach, /portForward and
// so on, as the node's HTTPS port has them.
//
// Pods are chosen with ?namespace= and ?name=, and events by their pod, with
// ?namespace=, ?pod= and ?uid=. A name is that of the pod, or that of its manifest,
// without the node's name at the end. An answer other than 200 has a
// body of one line of text, an error message.
package api

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"runtime"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// SocketPath returns the path of the socket of an agent, by its root directory.
func SocketPath(rootDir string) string { return filepath.Join(rootDir, "berth.sock") }

// SpareSocketPath returns the path of the socket of an agent that can't make one in its root
// directory, because the disk is read-only or full.
func SpareSocketPath(rootDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(rootDir)))
	return "/run/berth-" + hex.EncodeToString(sum[:8]) + ".sock"
}

// Group is the group of the system whose members may open the socket, which gives them the power of
// root.
const Group = "berth"

// List has the pods of the node, and the refused manifests.
type List struct {
	Pods    v1.PodList    `json:"pods"`
	Refused []pod.Refusal `json:"refused"`
}

// EventType is the type of an Event.
type EventType string

const (
	// Added, Modified and Deleted have a Pod. Added and Modified may have a v1.Event instead,
	// which is new or has happened again.
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	// Refused has a new refusal, and Resolved a refusal that is no longer in force.
	Refused  EventType = "REFUSED"
	Resolved EventType = "RESOLVED"
	// Synced is sent once, after the events of the state at the beginning.
	Synced EventType = "SYNCED"
)

// Event is one line of a watch. A watch sends the present state, not each step to it: changes that
// come faster than the client reads are sent as one.
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

// NewVersion returns the build information of this binary, which was built as version.
func NewVersion(version string) Version {
	return Version{Version: version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// The query of a log request.
const (
	QueryContainer  = "container"
	QueryFollow     = "follow"
	QueryPrevious   = "previous"
	QueryID         = "id"    // ID of one instance of the container, as in the status
	QueryTail       = "tail"  // a number of lines
	QuerySince      = "since" // a time as of RFC 3339, or an age such as 5m
	QueryTimestamps = "timestamps"
	QueryLimitBytes = "limitBytes"
)

// Headers of the answer to a log request. ErrorTrailer is a trailer: the error for which the log
// ended early.
const (
	HeaderContainer  = "Berth-Container"  // name of the container
	HeaderContainers = "Berth-Containers" // all containers of the pod, if the request named none
	ErrorTrailer     = "Berth-Error"
)
