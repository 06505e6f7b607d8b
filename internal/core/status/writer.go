package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// WriterConfig configures a Writer.
type WriterConfig struct {
	Client  corev1.PodsGetter // clientset.CoreV1()
	Log     *slog.Logger
	Workers int // how many requests are made at a time
	// Synced is called after each patch with the time since the status was asked for. May be nil.
	Synced func(time.Duration)
}

// Writer brings statuses to the API server. Nothing here waits for the server but
// the goroutines of Run.
//
// For every pod it holds the desired status and the last known status at the API server: from the
// source, or from the answer to the last patch, whichever is newer. A patch holds the difference,
// so nothing is read before it is written. Only the newest desired status of a pod is kept, and
// tried until the server takes it.
//
// The work queue hands a pod to one goroutine at a time: a pod's statuses arrive
// in order, and statuses of different pods are written at the same time.
type Writer struct {
	WriterConfig
	queue  *workqueue.Typed[pod.UID]
	faults *faults

	mu   sync.Mutex
	pods map[pod.UID]*podEntry
}

// podEntry is the writer's state of one pod. Writer.mu guards it.
type podEntry struct {
	namespace, name string

	held          v1.PodStatus // by the API server, as far as we know
	version       string       // the resource version at which that was so
	sourceVersion string       // the resource version that the source had last

	want  *v1.PodStatus // never changed in place; nil: nothing was asked for
	since time.Time     // want is to be patched; zero: it is not
	state writeState

	failures int
	waiting  *time.Timer // until the next attempt; nil if it need not wait
}

// NewWriter returns a writer. It writes while Run runs; statuses that are asked for before that
// are kept.
func NewWriter(c WriterConfig) (*Writer, error) {
	if c.Client == nil || c.Log == nil {
		return nil, errors.New("status writer: client and log are required")
	}
	if c.Workers < 1 {
		return nil, fmt.Errorf("status writer: %d workers can't write anything", c.Workers)
	}
	w := &Writer{WriterConfig: c, pods: map[pod.UID]*podEntry{}, faults: newFaults(c.Log)}
	w.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[pod.UID]{Queue: &lanes{isUrgent: w.isUrgent}})
	return w, nil
}

// Run writes until the context ends. Statuses that are not written by then are derived and
// written by the next agent.
func (w *Writer) Run(ctx context.Context) {
	group := run.NewGroup(ctx, w.Log)
	for range w.Workers {
		group.Go("status writer", w.work)
	}
	<-ctx.Done()
	w.queue.ShutDown()
	group.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.pods {
		e.stopWaiting()
	}
}

// Write asks for a status. p is the pod as the API server was last seen to have it,
// or its mirror pod if it is a static one: the caller hands in the versions of a pod in the
// order in which the source had them. Write never blocks.
//
// It costs nothing if there is nothing new: a status that is asked for again is
// written again only if p shows that another program has overwritten it.
func (w *Writer) Write(p *v1.Pod, s v1.PodStatus) {
	w.mu.Lock()
	e := w.entry(p)
	overwritten := e.observe(p)
	if e.state.phase.isGone() || (!overwritten && e.want != nil && equality.Semantic.DeepEqual(*e.want, s)) {
		w.mu.Unlock()
		return
	}
	if e.since.IsZero() {
		e.since = time.Now()
	}
	e.want = &s
	e.state = e.state.on(write{urgent: isUrgent(e.held, s)})
	waits := e.waiting != nil
	w.mu.Unlock()
	if !waits {
		w.queue.Add(p.UID)
	}
}

// Delete deletes the object of a pod from the API server, with a grace period of zero: it is for
// a pod of which nothing is left on this node. The last status that was asked for is written
// before.
func (w *Writer) Delete(p *v1.Pod) {
	w.mu.Lock()
	e := w.entry(p)
	if e.version == "" { // else Write observes newer versions
		e.observe(p)
	}
	if e.state.phase.isGone() || e.state.phase.isDeleting() {
		w.mu.Unlock()
		return
	}
	e.state = e.state.on(deletion{})
	waits := e.waiting != nil
	w.mu.Unlock()
	if !waits {
		w.queue.Add(p.UID)
	}
}

// Forget drops the state of a pod that is no longer at the API server. A deletion that was requested
// is still completed.
func (w *Writer) Forget(uid pod.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		return
	}
	if e.state = e.state.on(forget{}); !e.state.phase.isDeleting() {
		w.drop(uid, e)
	}
}

// drop is called with the lock held.
func (w *Writer) drop(uid pod.UID, e *podEntry) {
	e.stopWaiting()
	w.faults.end(uid)
	delete(w.pods, uid)
}

func (e *podEntry) stopWaiting() {
	if e.waiting != nil {
		e.waiting.Stop()
		e.waiting = nil
	}
}

// entry is called with the lock held.
func (w *Writer) entry(p *v1.Pod) *podEntry {
	e := w.pods[p.UID]
	if e == nil {
		e = &podEntry{namespace: p.Namespace, name: p.Name}
		w.pods[p.UID] = e
	}
	return e
}

// observe stores the version of a pod that the source has, unless a newer one is known. It
// returns whether the status differs from the last known one, or the object was taken for gone.
//
// A source with an older version than before has an API server that was restored from a backup.
// The older version is stored then.
func (e *podEntry) observe(p *v1.Pod) bool {
	wentBack := e.sourceVersion != "" && isNewer(e.sourceVersion, p.ResourceVersion)
	e.sourceVersion = p.ResourceVersion
	if e.version != "" && !isNewer(p.ResourceVersion, e.version) && !wentBack {
		return false
	}
	changed := e.state.phase.isGone() || !equality.Semantic.DeepEqual(e.held, p.Status)
	e.held, e.version, e.state = p.Status, p.ResourceVersion, e.state.on(seen{})
	return changed
}

// isNewer compares resource versions. A server whose versions can't be compared
// is believed whatever it says last.
func isNewer(a, b string) bool {
	if a == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return order > 0 || (err != nil && a != b)
}

func (w *Writer) isUrgent(uid pod.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	return e != nil && e.state.urgent
}

// work makes the requests of one pod after the other.
func (w *Writer) work(ctx context.Context) {
	for {
		uid, ended := w.queue.Get()
		if ended || ctx.Err() != nil {
			return
		}
		w.writePod(ctx, uid)
		w.queue.Done(uid)
	}
}

// writePod makes the requests that are due for a pod: a patch of its status, a deletion, or both.
func (w *Writer) writePod(ctx context.Context, uid pod.UID) {
	w.mu.Lock()
	e := w.pods[uid]
	if e == nil || e.waiting != nil || !e.state.phase.hasWork() {
		w.mu.Unlock()
		return
	}
	sent := *e
	e.state = e.state.on(begun{})
	w.mu.Unlock()

	if sent.state.phase.isDirty() {
		fields, updated, err := w.patch(ctx, uid, &sent)
		overwritten := false
		if !w.settle(ctx, uid, e, err, func() { overwritten = w.recordPatch(e, &sent, fields, updated) }) {
			return
		}
		if overwritten {
			w.queue.Add(uid) // without the lock, which the queue asks for
		}
	}
	if sent.state.phase.isDeleting() {
		err := w.delete(ctx, e, uid)
		w.settle(ctx, uid, e, err, func() { e.state = e.state.on(gone{}) })
	}
}

// recordPatch stores the answer to a patch; nil: there was nothing to patch. sent is the state of
// the pod when the patch was made. It returns whether the answer shows that another program has
// overwritten the status: no event of the source follows this answer, so it has to be noticed
// here. It is called with the lock held.
//
// An answer with an older version than the known one is stored as well, for the reason that
// observe has, but not if the source has delivered another version meanwhile.
func (w *Writer) recordPatch(e, sent *podEntry, fields map[string]any, updated *v1.Pod) bool {
	since := e.since
	if e.want == sent.want {
		e.since, e.state = time.Time{}, e.state.on(patched{})
	}
	if updated == nil {
		return false
	}
	if w.Synced != nil {
		w.Synced(time.Since(since))
	}
	if e.version != sent.version && !isNewer(updated.ResourceVersion, e.version) {
		return false
	}
	e.held, e.version = updated.Status, updated.ResourceVersion
	if e.want != sent.want || !isOverwritten(e.held, *e.want, fields) {
		return false
	}
	e.since, e.state = time.Now(), e.state.on(write{})
	return true
}
