package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

const (
	// apiGap is the least time between two snapshots. The first change after a
	// quiet time goes out at once; the changes of a burst go out together.
	apiGap = 20 * time.Millisecond

	// A request to an API server that does not answer is repeated after a backoff between these,
	// each made up to twice as long at random, so that the nodes of a cluster do not come all at
	// once.
	apiInitialBackoff = 500 * time.Millisecond
	apiMaxBackoff     = 2 * time.Second

	// apiListTimeout ends a list that a server accepted and never answers.
	apiListTimeout = time.Minute

	// apiLongOutage is how long the API server must have been away to make the source
	// doubt that it will come back with the same database. It is shorter than any server
	// takes to start.
	apiLongOutage = time.Second
)

// APIClient is the part of a clientset that the source uses.
type APIClient interface {
	CoreV1() corev1.CoreV1Interface
}

// APIConfig says which API server to ask, and for which node.
type APIConfig struct {
	Client APIClient
	Node   string // the name of this node
	Log    *slog.Logger

	// Ready is closed when the Node and the Services are known. No snapshot is sent
	// before that; nil: they are known from the start.
	Ready <-chan struct{}
	// Remember, if set, is called with each snapshot before it is sent, so that the
	// pods can be kept on disk. A failure is logged and the snapshot is sent all the
	// same, as with the other sources.
	Remember func(context.Context, pod.Snapshot) error
}

// API is the pods that an API server has bound to this node.
//
// client-go's reflector lists and watches, resumes a watch where it was lost, and
// lists again when the server no longer knows that resource version. The pods are kept
// in a podStore, and sent as a whole.
type API struct {
	APIConfig
	outage outage

	mu       sync.Mutex
	endWatch context.CancelFunc // of the reflector that runs; nil: none was started yet
}

// NewAPI checks the configuration.
func NewAPI(c APIConfig) (*API, error) {
	err := checkNode(c.Node)
	if c.Client == nil {
		err = errors.Join(err, errors.New("there is no client"))
	}
	if c.Log == nil {
		err = errors.Join(err, errors.New("there is no log"))
	}
	if err != nil {
		return nil, fmt.Errorf("make the source of the API server: %w", err)
	}
	c.Node = strings.ToLower(c.Node)
	return &API{APIConfig: c}, nil
}

// Run sends snapshots until the context ends. The first one goes out when all pods
// were listed once and Ready is closed.
func (a *API) Run(ctx context.Context, out chan<- pod.Snapshot) {
	pods := newPodStore()
	group := run.NewGroup(ctx, a.Log)
	defer group.Stop()
	group.Go("reflector of pods", func(ctx context.Context) { a.reflect(ctx, pods) })
	a.deliver(group.Context(), pods, out)
}

// Relist starts a new list and watch. It is called when the server is known to have
// other data than before, such as a restored backup: the server sends no events to a
// watch from a resource version that it has not reached yet. Until the new list is
// there, the pods stay as they are. Relist does not block.
func (a *API) Relist() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.endWatch != nil {
		a.endWatch()
	}
}

// reflect keeps pods as the server has them, until the context ends.
func (a *API) reflect(ctx context.Context, pods *podStore) {
	for ctx.Err() == nil {
		one, end := context.WithCancel(ctx)
		a.mu.Lock()
		a.endWatch = end
		a.mu.Unlock()
		// The reflector would log every failure; outage logs the first one of a row.
		a.reflector(pods).RunWithContext(klog.NewContext(one, klog.Logger{}))
		end()
	}
}

// reflector makes a reflector that starts with a list.
func (a *API) reflector(pods *podStore) *cache.Reflector {
	return cache.NewReflectorWithOptions(a.listWatch(), &v1.Pod{}, pods, cache.ReflectorOptions{
		Name: "pods of " + a.Node,
		Backoff: &wait.Backoff{
			Duration: apiInitialBackoff, Factor: 2, Jitter: 1, Cap: apiMaxBackoff,
			Steps: int(apiMaxBackoff / apiInitialBackoff),
		},
	})
}

// deliver sends a snapshot of the store after each change. A snapshot that was not
// received yet is replaced by a newer one.
func (a *API) deliver(ctx context.Context, pods *podStore, out chan<- pod.Snapshot) {
	if a.Ready != nil {
		select {
		case <-a.Ready:
		case <-ctx.Done():
			return
		}
	}
	var (
		remembering fault
		snapshot    pod.Snapshot
		offer       chan<- pod.Snapshot // out while there is something to send, else nil
		changed     = pods.changed      // nil during the gap after the last snapshot
		gap         <-chan time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			snapshot = pod.Snapshot{Source: pod.SourceAPI, Op: pod.Set, Pods: pods.all()}
			a.remember(ctx, snapshot, &remembering)
			offer, changed, gap = out, nil, time.After(apiGap)
		case <-gap:
			changed, gap = pods.changed, nil
		case offer <- snapshot:
			offer = nil
			if pods.markRead(snapshot.Pods) {
				changed, gap = pods.changed, nil
			}
		}
	}
}

func (a *API) remember(ctx context.Context, s pod.Snapshot, failing *fault) {
	if a.Remember == nil {
		return
	}
	if err := a.Remember(ctx, s); err != nil {
		failing.begin(a.Log, "the pods of the API server are not remembered over a restart", err)
		return
	}
	failing.end(a.Log, "the pods of the API server are remembered again")
}

// listWatch makes the reflector's requests, and records their results in outage.
func (a *API) listWatch() cache.ListerWatcher {
	client := a.Client.CoreV1().Pods(metav1.NamespaceAll)
	ours := fields.OneTermEqualSelector("spec.nodeName", a.Node).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, apiListTimeout)
			defer cancel()
			o.FieldSelector = ours
			began := time.Now()
			list, err := client.List(ctx, o)
			a.outage.recordResult(ctx, a.Log, began, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = ours
			began := time.Now()
			w, err := client.Watch(ctx, o)
			streamed := o.SendInitialEvents != nil && *o.SendInitialEvents // the list itself
			if away := a.outage.recordResult(ctx, a.Log, began, err); err == nil && away > apiLongOutage && !streamed {
				// A server whose database was wiped or restored meanwhile would keep
				// silent until it reaches the resource version that the watch resumes at.
				w.Stop()
				a.Relist()
				return nil, apierrors.NewResourceExpired("the API server was away for " + away.String())
			}
			return w, err
		},
	}, a.Client)
}
