//go:build real

package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/proxy"
)

// asked is a request of a node to its API server.
type asked struct {
	at     time.Time
	method string
	path   string
	watch  bool
	from   string // the resource version
	header http.Header
	body   []byte
}

// requestRecorder records the requests of a node, and may refuse some of them.
type requestRecorder struct {
	t        *testing.T
	mu       sync.Mutex
	requests []asked
	refuse   func(asked) bool
}

// record is a fault that passes all requests on, but for those that are to be refused.
func (l *requestRecorder) record(w http.ResponseWriter, r *http.Request) bool {
	a := asked{at: time.Now(), method: r.Method, path: r.URL.Path, watch: proxy.IsWatch(r), from: r.URL.Query().Get("resourceVersion"), header: r.Header.Clone()}
	if r.Method == http.MethodDelete {
		var err error
		if a.body, err = io.ReadAll(r.Body); err != nil {
			l.t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(a.body))
	}
	l.mu.Lock()
	l.requests = append(l.requests, a)
	refused := l.refuse != nil && l.refuse(a)
	l.mu.Unlock()
	if refused {
		kit.WriteStatus(w, http.StatusServiceUnavailable, "ServiceUnavailable")
	}
	return refused
}

func (l *requestRecorder) set(refuse func(asked) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

// since are the requests of a kind from a moment on.
func (l *requestRecorder) since(begin time.Time, of func(asked) bool) []asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.requests), func(a asked) bool { return a.at.Before(begin) || !of(a) })
}

// await returns once so many requests of a kind were made from a moment on.
func (l *requestRecorder) await(begin time.Time, count int, what string, of func(asked) bool) []asked {
	l.t.Helper()
	var found []asked
	kit.Within(l.t, kit.WaitTimeout, func() error {
		if found = l.since(begin, of); len(found) < count {
			return fmt.Errorf("%d times %s, want %d", len(found), what, count)
		}
		return nil
	})
	return found
}

func toServices(a asked) bool { return a.path == "/api/v1/services" }

func toPods(a asked) bool { return a.path == "/api/v1/pods" }

func toPod(name string) func(asked) bool {
	return func(a asked) bool { return strings.Contains(a.path, "/pods/"+name) }
}

func toNodeStatus(a asked) bool {
	return a.method == http.MethodPatch && a.path == "/api/v1/nodes/one/status"
}

func TestWhatANodeAsksOfItsServer(t *testing.T) {
	t.Parallel()
	const update, report = 2 * time.Second, 10 * time.Second
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	pods := kit.PodsIn(t, admin, "default")
	recorder := &requestRecorder{t: t, refuse: toServices}

	// Given a node that gets no services, and a pod of it.
	kit.Must(t, kit.Retry(t.Context(), kit.WaitTimeout, func() error {
		_, err := pods.Create(t.Context(), kit.OnNode(kit.WorkloadPod("early", "sleep"), "one"), kit.CreateOptions)
		return err
	}))
	way := kit.JoinThroughProxyAs(t, plane, lab.NodeConfig{Name: "one", Settings: fmt.Sprintf(
		"nodeStatusUpdateFrequency: %s\nnodeStatusReportFrequency: %s\n", update, report)}, recorder.record)

	// Then it knows the pod, and does nothing with it, ...
	recorder.await(time.Time{}, 1, "a watch of pods", func(a asked) bool { return toPods(a) && a.watch })
	recorder.await(time.Now(), 3, "asked for services", toServices)
	kit.Must(t, plane.AwaitNodes(t.Context()))
	if early, err := pods.Get(t.Context(), "early", kit.GetOptions); err != nil || len(early.Status.ContainerStatuses) > 0 {
		t.Errorf("it was begun with: %+v, %v", early.Status, err)
	}
	if said := recorder.since(time.Time{}, toPod("early")); len(said) > 0 {
		t.Errorf("it was written about: %v", said)
	}
	// ... until it is.
	recorder.set(nil)
	pods.Await("early", "ready", kit.IsReady)

	// When pods come and go, their statuses are patched, and never read before.
	var names []string
	began := time.Now()
	for i := range 6 {
		names = append(names, fmt.Sprintf("one-of-%d", i))
		pods.MustCreate(kit.OnNode(kit.WorkloadPod(names[i], "sleep"), "one"))
	}
	uids := map[string]types.UID{}
	for _, name := range names {
		uids[name] = pods.Await(name, "ready", kit.IsReady).UID
	}
	pods.MustRemove(names...)
	for _, name := range names {
		kinds := map[string]int{}
		for _, a := range recorder.since(began, toPod(name)) {
			kinds[a.method]++
			if a.method == http.MethodPatch && a.path != "/api/v1/namespaces/default/pods/"+name+"/status" {
				t.Errorf("patched is %s", a.path)
			}
			if a.method == http.MethodDelete {
				mustBeForThis(t, a, uids[name])
			}
		}
		if kinds[http.MethodPatch] == 0 || kinds[http.MethodDelete] == 0 || len(kinds) != 2 {
			t.Errorf("for %s it asked %v", name, kinds)
		}
	}

	// It says who it is, and speaks in few bytes.
	asks := recorder.since(began, func(a asked) bool {
		return strings.Contains(a.path, "/namespaces/default/") && !strings.Contains(a.path, "/events") && !a.watch
	})
	for _, a := range asks {
		if agent, accepts := a.header.Get("User-Agent"), a.header.Get("Accept"); !strings.HasPrefix(agent, "berth/") || !strings.HasPrefix(accepts, "application/vnd.kubernetes.protobuf") {
			t.Errorf("%s %s came from %q, who understands %q", a.method, a.path, agent, accepts)
		}
	}

	// When its watches end, it goes on where they ended, and lists nothing.
	began = time.Now()
	way.Requests.EndWatches(false)
	for _, a := range recorder.await(began, 1, "asked for pods", toPods) {
		if !a.watch || a.from == "" || a.from == "0" {
			t.Errorf("it asked for all pods: %+v", a)
		}
	}

	// While nothing happens its status is written as often as configured, and its lease is renewed.
	quiet := recorder.await(time.Now(), 3, "wrote its status", toNodeStatus)
	for i := range quiet[1:] {
		if gap := quiet[i+1].at.Sub(quiet[i].at); gap < report-update || gap > report+3*update {
			t.Errorf("it wrote its status %s after the last time", gap)
		}
	}
	recorder.await(quiet[0].at, 1, "renewed its lease", func(a asked) bool { return a.method == http.MethodPut && strings.Contains(a.path, "/leases/one") })

	// When another program changes the status, it is corrected at the next update, not at the next
	// report.
	if before, err := admin.CoreV1().Nodes().Get(t.Context(), "one", kit.GetOptions); err != nil || len(before.Status.Images) == 0 {
		t.Errorf("it does not tell the image that was imported at its start: %v", err)
	}
	began = time.Now()
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), "one", types.MergePatchType, []byte(`{"status":{"images":[]}}`), metav1.PatchOptions{}, "status")
	kit.Must(t, err)
	if gap := recorder.await(began, 1, "wrote its status", toNodeStatus)[0].at.Sub(began); gap > 3*update {
		t.Errorf("it was put right after %s", gap)
	}
	kit.Within(t, kit.WaitTimeout, func() error {
		n, err := admin.CoreV1().Nodes().Get(t.Context(), "one", kit.GetOptions)
		if err == nil && len(n.Status.Images) == 0 {
			err = fmt.Errorf("it has no images")
		}
		return err
	})
}

// mustBeForThis checks that a request deletes one pod at once, and no other of its name.
func mustBeForThis(t *testing.T, a asked, uid types.UID) {
	t.Helper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(a.body, nil, &metav1.DeleteOptions{})
	kit.Must(t, err)
	options, ok := object.(*metav1.DeleteOptions)
	if !ok || options.GracePeriodSeconds == nil || *options.GracePeriodSeconds != 0 || options.Preconditions == nil || *options.Preconditions.UID != uid {
		t.Errorf("it is deleted with %+v", object)
	}
}
