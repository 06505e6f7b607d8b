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

// WriterConfig is what a Writer is made of.
type WriterConfig struct {
	Client  corev1.PodsGetter // clientset.CoreV1()
	Log     *slog.Logger
	Workers int // how many requests are made at a time
	// Synced is told how long it took until a status was written, if it is there.
	Synced func(time.Duration)
}

// Writer brings statuses to the API server. Nothing here waits for the server but
// the goroutines of Run.
//
// For every pod it holds the status that is wanted and the one that the server is
// known to hold: from the source, or from the answer to the last patch, whichever is
// newer. What differs is patched, so nothing is read before it is written. Only the
// newest status of a pod is kept, and tried until the server takes it.
//
// The work queue hands a pod to one goroutine at a time: a pod's statuses arrive
// in order, those of different pods at the same time.
type Writer struct {
	WriterConfig
	queue  *workqueue.Typed[pod.UID]
	faults *faults

	mu   sync.Mutex
	pods map[pod.UID]*podEntry
}

// podEntry is what the writer knows of one pod. Writer.mu guards it.
type podEntry struct {
	namespace, name string

	held          v1.PodStatus // by the API server, as far as we know
	version       string       // the resource version at which that was so
	sourceVersion string       // the one that the source had last

	want  *v1.PodStatus // never changed in place; nil: nothing was asked for
	since time.Time     // want is to be patched; zero: it is not
	state writeState

	failures int
	waiting  *time.Timer // until the next attempt; nil if it need not wait
}

// NewWriter returns a writer. It writes while Run runs; what is asked for before
// is kept.
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

// Run writes until the context ends. What is not written by then is derived and
// written again by the next agent.
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
// or its mirror pod if it is a static one: whoever calls hands in the versions of a pod
// in the order in which the source had them. Write never blocks.
//
// It costs nothing if there is nothing new: a status that is asked for again is
// written again only if p says that somebody else has overwritten it.
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

// Delete takes the object of a pod off the API server, at once and for good: it is
// for a pod of which nothing is left on this node. The last status that was asked
// for is written before.
func (w *Writer) Delete(p *v1.Pod) {
	w.mu.Lock()
	e := w.entry(p)
	if e.version == "" { // else Write is told what there is to see
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

// Forget drops what is known of a pod that is no longer at the API server. A
// deletion that was asked for is still seen through.
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

// observe takes in what the source shows, unless something newer is known. It tells
// whether that is news: another status than the one that was known, or a pod that was
// taken for gone.
//
// A source that shows an older version than before has a server that went back to the
// data of a backup. What is known of the time after that is void.
func (e *podEntry) observe(p *v1.Pod) bool {
	wentBack := e.sourceVersion != "" && isNewer(e.sourceVersion, p.ResourceVersion)
	e.sourceVersion = p.ResourceVersion
	if e.version != "" && !isNewer(p.ResourceVersion, e.version) && !wentBack {
		return false
	}
	news := e.state.phase.isGone() || !equality.Semantic.DeepEqual(e.held, p.Status)
	e.held, e.version, e.state = p.Status, p.ResourceVersion, e.state.on(seen{})
	return news
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

// work writes one pod after the other.
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

// writePod writes what there is to write of a pod: a status, a deletion, or both.
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

// recordPatch takes in the answer to a patch that was made of what was known then, as sent;
// nil: there was nothing to patch. It tells whether somebody has overwritten what is
// wanted: the source will show nothing newer than this answer, so nobody would notice
// later. It is called with the lock held.
//
// An answer that is older than what was known is taken in as well, for the reason that
// see has, but not if the source has shown more meanwhile.
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
