package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/lib/backoff"
)

// writer writes the Node. Only the goroutine of keepNode uses it.
type writer struct {
	*Reporter
	started     time.Time
	last        time.Time     // when the status was last written
	urgent      time.Time     // when it was last written out of turn
	urgentCount int           // how often that was, with little time between
	gap         time.Duration // how long the next such patch has to wait after last
	// pending are our conditions that changed and that the API server does not have yet. Their
	// events are recorded, and their transition times stay.
	pending []v1.NodeCondition
}

// keepNode registers the Node and keeps its status.
func (r *Reporter) keepNode(ctx context.Context) {
	w := &writer{Reporter: r, started: time.Now(), gap: urgentGap}
	outages := &outage{log: r.config.Log, what: "report this node to the API server"}
	for {
		wait, err := w.step(ctx)
		wake := r.wakeNode
		if err != nil {
			// Changes do not shorten the pause: they are part of the next attempt.
			wait, wake = outages.failed(ctx, err), nil
		} else {
			outages.over()
		}
		if !pause(ctx, wait, wake) {
			return
		}
	}
}

// step reads or patches the Node if that is due. It returns the time until the next patch is due
// if nothing changes.
func (w *writer) step(ctx context.Context) (time.Duration, error) {
	looked, err := w.ensureNode(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	w.mu.Lock()
	node, facts, health, heard := w.node, w.facts, w.health, w.reported.runtime && w.reported.network
	wanted := w.volumes.wanted
	w.mu.Unlock()
	if same(node.Status.VolumesInUse, facts.Volumes.inUse(node.Status.VolumesInUse)) {
		w.recordVolumesWritten(wanted)
	}
	if until := w.started.Add(firstStatusTimeout); !heard && now.Before(until) {
		return until.Sub(now), nil
	}

	before := *node.Status.DeepCopy()
	for _, c := range w.pending {
		before.Conditions = put(before.Conditions, c)
	}
	want := Status(facts, w.config.Settings, health, before, now)
	for _, c := range transitions(before.Conditions, want.Conditions) {
		w.record(c)
		w.pending = put(w.pending, c)
	}

	differs, urgent := !sameStatus(node.Status, want), isUrgent(node.Status, want)
	awaited := lacks(node.Status.VolumesInUse, want.VolumesInUse)
	due := w.last.Add(w.config.Report)
	switch {
	case looked && differs, awaited: // a pod can't start before
		due = now
	case urgent:
		due = w.last.Add(w.gap)
	case differs:
		due = w.last.Add(w.config.Update)
	}
	if now.Before(due) {
		return due.Sub(now), nil
	}
	if err := w.patch(ctx, node, &want); err != nil {
		return 0, err
	}
	w.recordVolumesWritten(wanted)
	w.recordWrite(urgent && !awaited)
	return 0, nil
}

// patch writes the status. If that fails, for whatever reason, the Node is read before the next
// attempt: it may be deleted, created again, or changed by a controller that took this node for
// dead.
func (w *writer) patch(ctx context.Context, node *v1.Node, want *v1.NodeStatus) error {
	body, err := statusPatch(node, want)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := w.config.Client.CoreV1().Nodes().Patch(
		ctx, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		w.markStale()
		return fmt.Errorf("patch the status of node %s: %w", node.Name, err)
	}
	w.pending = nil
	w.setNode(answer, node)
	if w.config.Ready != nil && slices.ContainsFunc(answer.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}) {
		w.config.Ready()
	}
	return nil
}

// recordWrite records the time of a patch, and sets the gap before the next urgent one. Urgent
// changes that keep coming wait longer and longer, so that a flapping runtime is no load on the API
// server. The first few only wait for urgentGap.
func (w *writer) recordWrite(urgent bool) {
	w.last = time.Now()
	if !urgent {
		return
	}
	switch {
	case w.last.Sub(w.urgent) >= w.gap+w.config.Update:
		w.urgentCount, w.gap = 1, urgentGap
	case w.urgentCount < urgentRow:
		w.urgentCount++
	default:
		w.gap = backoff.Exponential{First: urgentGap, Max: w.config.Update}.Next(w.gap)
	}
	w.urgent = w.last
}

func (w *writer) record(c v1.NodeCondition) {
	reason, message := eventFor(w.config.Settings.Name, c)
	w.config.Events.RecordNode(v1.EventTypeNormal, reason, message)
}

// ensureNode reads or registers the Node if it is not known or stale. It returns whether it did.
func (w *writer) ensureNode(ctx context.Context) (bool, error) {
	w.mu.Lock()
	before := w.node
	due := before == nil || w.stale
	w.stale = false // set again if an event comes while the Node is read
	w.mu.Unlock()
	if !due {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := w.read(ctx, before); err != nil {
		w.markStale()
		return true, err
	}
	return true, nil
}

// read fetches the Node from the API server, and registers it if there is none. before is the
// Node that was known when the read was decided on.
func (w *writer) read(ctx context.Context, before *v1.Node) error {
	node, err := w.config.Client.CoreV1().Nodes().Get(ctx, w.config.Settings.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return w.register(ctx, before)
	case err != nil:
		return fmt.Errorf("read node %s: %w", w.config.Settings.Name, err)
	default:
		return w.adopt(ctx, node, before)
	}
}

// build returns the Node that the API server should have.
func (w *writer) build() *v1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Build(w.facts, w.config.Settings, w.health, time.Now())
}

// register creates the Node at the API server.
func (w *writer) register(ctx context.Context, before *v1.Node) error {
	built := w.build()
	if w.config.DontRegister {
		return fmt.Errorf("node %s does not exist, and registerNode is false: create it, or set registerNode to true", built.Name)
	}
	node, err := w.config.Client.CoreV1().Nodes().Create(ctx, built, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register node %s: %w", built.Name, err)
	}
	w.config.Log.Info("registered the node", "node", node.Name)
	for _, c := range transitions(w.pending, node.Status.Conditions) {
		// A new node is never ready at first, so that gets no event.
		if c.Type != v1.NodeReady || c.Status == v1.ConditionTrue {
			w.record(c)
		}
	}
	w.pending = nil
	w.recordWrite(false)
	w.setNode(node, before)
	return nil
}

// adopt takes over a Node that exists: our labels and annotations are corrected, and all
// others stay.
func (w *writer) adopt(ctx context.Context, node, before *v1.Node) error {
	built := w.build()
	was, is := node.Status.NodeInfo.BootID, built.Status.NodeInfo.BootID
	rebooted := before == nil && was != "" && is != "" && was != is
	patch, err := metadataPatch(node, built)
	if err != nil {
		return err
	}
	if patch != nil {
		node, err = w.config.Client.CoreV1().Nodes().Patch(
			ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("patch the labels of node %s: %w", built.Name, err)
		}
	}
	if rebooted {
		w.config.Events.RecordNode(v1.EventTypeWarning, "Rebooted",
			fmt.Sprintf("Node %s has been rebooted, boot id: %s", node.Name, is))
	}
	w.setNode(node, before)
	return nil
}
