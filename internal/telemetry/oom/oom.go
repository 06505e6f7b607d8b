// Package oom reports processes that the kernel killed because memory ran out: those of containers as events of their
// pods and in the state of the container that ended, all others as events of the node.
//
// A container whose main process is killed ends, and the runtime says OOMKilled. A child is killed as well if it is the largest
// process; the container goes on without it, or ends later with any exit code. Only the messages of the kernel name the process.
package oom

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/host/kernel"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// eventInterval is the time between two events of one container: a program may start the same child again and again.
const eventInterval = 10 * time.Second

// observationDelay is the time in which a container that was started is observed.
const observationDelay = 2 * time.Second

// Config configures a Watcher.
type Config struct {
	Victims *Victims
	// Observed returns the containers that the runtime had when it was last listed.
	Observed func() []pod.Observed
	// Pod returns a pod that has a worker.
	Pod func(pod.UID) (*v1.Pod, bool)
	// RecordContainer and RecordNode record events. They must not block.
	RecordContainer func(p *v1.Pod, container, kind, reason, message string)
	RecordNode      func(kind, reason, message string)
	// Enqueue asks for a sync of a pod, after which its status has the message.
	Enqueue func(pod.UID)
	Log     *slog.Logger
}

// Watcher follows the messages of the kernel.
type Watcher struct{ Config }

// New checks the configuration.
func New(c Config) (*Watcher, error) {
	if c.Victims == nil || c.Observed == nil || c.Pod == nil || c.RecordContainer == nil || c.RecordNode == nil || c.Enqueue == nil || c.Log == nil {
		return nil, errors.New("oom: victims, observed, pod, recordContainer, recordNode, enqueue and log are required")
	}
	return &Watcher{c}, nil
}

// Run follows the messages of the kernel until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	if err := kernel.WatchOOM(ctx, w.killed); err != nil {
		w.Log.Warn("processes that are killed because memory ran out will not be named", "err", err)
	}
}

// killed handles one message of the kernel.
func (w *Watcher) killed(v kernel.Victim) {
	if v.System() {
		w.RecordNode(v1.EventTypeWarning, event.SystemOOM, fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", v.Name, v.PID))
	}
	id := containerID(v.Cgroup)
	if id == "" || !w.Victims.add(id, v) {
		return
	}
	if !w.report(id, v) {
		// The container may be so new that it was not observed yet. Otherwise it is of another agent.
		time.AfterFunc(observationDelay, func() { w.report(id, v) })
	}
}

// report records the event of a victim. It returns false if no pod has the container.
func (w *Watcher) report(id string, v kernel.Victim) bool {
	for _, o := range w.Observed() {
		for _, c := range o.Containers {
			if c.ID != id {
				continue
			}
			if p, ok := w.Pod(o.UID); ok {
				w.RecordContainer(p, c.Name, v1.EventTypeWarning, event.OOMKilling, describe(v))
			}
			w.Enqueue(o.UID)
			return true
		}
	}
	return false
}

// containerID returns the id of the container that a cgroup belongs to; empty: it is of no container. The element of the path is
// ID for the cgroupfs driver, RUNTIME-ID.scope for systemd. A container may have made cgroups below its own.
func containerID(cgroup string) string {
	for element := range strings.SplitSeq(cgroup, "/") {
		id := strings.TrimSuffix(element, ".scope")
		id = id[strings.LastIndexByte(id, '-')+1:]
		if bytes, err := hex.DecodeString(id); err == nil && len(bytes) == idBytes {
			return id
		}
	}
	return ""
}

// idBytes is the length of the ids of containers: containerd and CRI-O write them in hexadecimal digits.
const idBytes = 32

func describe(v kernel.Victim) string {
	limit := "the memory limit of its container or pod was reached"
	if v.System() {
		limit = "the machine had no memory left"
	}
	return fmt.Sprintf("The kernel killed process %s (pid %d): %s", v.Name, v.PID, limit)
}
