package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"berth/internal/lib/pod"
)

// apiServer is an API server in memory, with one open watch.
type apiServer struct {
	client *fake.Clientset

	mu       sync.Mutex
	version  int
	pods     map[string]*v1.Pod
	watch    *watch.RaceFreeFakeWatcher
	failure  error // what requests are answered with
	requests []string

	successors int // pods that took the place of one that was deleted by force
}

func newAPIServer(t *testing.T) *apiServer {
	// They compare fake time with the real time of the last error, and would sleep
	// for the years in between.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	s := &apiServer{client: fake.NewClientset(), version: 100, pods: map[string]*v1.Pod{}}
	s.client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		list, ok := a.(clienttesting.ListActionImpl)
		if !ok || list.ListRestrictions.Fields.String() != "spec.nodeName=box" {
			t.Errorf("unexpected list %v", a)
		}
		s.requests = append(s.requests, "list")
		if s.failure != nil {
			return true, nil, s.failure
		}
		if from, err := strconv.Atoi(list.ListOptions.ResourceVersion); err == nil && from > s.version {
			ahead := apierrors.NewTimeoutError("Too large resource version", 1)
			ahead.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
			return true, nil, ahead
		}
		out := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
		for _, p := range s.pods {
			out.Items = append(out.Items, *p)
		}
		return true, out, nil
	})
	s.client.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w, ok := a.(clienttesting.WatchActionImpl)
		if !ok || !w.WatchRestrictions.Fields.Matches(selects("box")) || w.WatchRestrictions.Fields.Matches(selects("other")) {
			t.Errorf("unexpected watch %v", a)
		}
		s.requests = append(s.requests, "watch "+w.WatchRestrictions.ResourceVersion)
		if s.failure != nil {
			return true, nil, s.failure
		}
		s.watch = watch.NewRaceFreeFake()
		return true, s.watch, nil
	})
	return s
}

// selects holds the fields of a pod of that node, for field selectors.
type selects string

func (s selects) Has(string) bool { return true }
func (s selects) Get(field string) string {
	if field == "spec.nodeName" {
		return string(s)
	}
	return ""
}

// put stores a pod, and sends it to the watch.
func (s *apiServer) put(name, image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: s.uid(name), ResourceVersion: strconv.Itoa(s.version),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: v1.PodSpec{NodeName: "box", Containers: []v1.Container{{Name: "app", Image: "localhost/" + image}}},
	}
	_, known := s.pods[name]
	s.pods[name] = p
	switch {
	case s.watch == nil:
	case known:
		s.watch.Modify(p)
	default:
		s.watch.Add(p)
	}
}

// uid returns the UID that a pod gets if it is stored now.
func (s *apiServer) uid(name string) pod.UID {
	if s.successors > 0 && s.pods[name] == nil {
		return pod.UID(fmt.Sprintf("uid-%s-%d", name, s.successors))
	}
	return pod.UID("uid-" + name)
}

func (s *apiServer) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	p := s.pods[name]
	delete(s.pods, name)
	s.watch.Delete(p)
}

// force marks a pod for deletion without any grace and removes it. The next reader
// under its name is another pod.
func (s *apiServer) force(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	p := s.pods[name].DeepCopy()
	p.ResourceVersion = strconv.Itoa(s.version)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(0))
	s.watch.Modify(p)
	delete(s.pods, name)
	s.watch.Delete(p)
	s.successors++
}

// breakOff ends the watch, as a server does that goes away or has had enough.
func (s *apiServer) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.Stop()
	s.watch = nil
}

// expire ends the watch because its version is no longer known.
func (s *apiServer) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := apierrors.NewResourceExpired("too old").Status()
	s.watch.Error(&status)
	s.watch = nil
}

func (s *apiServer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// asked returns the requests since the last call.
func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

func apiSource(t *testing.T, c APIConfig) *API {
	t.Helper()
	c.Node = "box"
	if c.Log == nil {
		c.Log = quietLog()
	}
	a, err := NewAPI(c)
	must(t, err)
	return a
}

func TestAPISourceSendsAllPodsAtEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		server.put("a", "x:1")
		out, stop := start(apiSource(t, APIConfig{Client: server.client}).Run)
		defer stop()

		first := wantNext(t, out, "SET a=x:1")
		if first.Source != pod.SourceAPI {
			t.Errorf("source %q", first.Source)
		}
		if p := first.Pods[0]; p.ManagedFields != nil || server.pods["a"].ManagedFields == nil {
			t.Error("the managed fields are kept here, or were taken off the client's object")
		}
		synctest.Wait()
		server.put("b", "x:1")
		second := wantNext(t, out, "SET a=x:1 b=x:1")
		if first.Pods[0] != second.Pods[0] {
			t.Error("a pod that did not change is another object")
		}
		server.put("a", "x:2")
		wantNext(t, out, "SET a=x:2 b=x:1")
		server.remove("a")
		wantNext(t, out, "SET b=x:1")
		wantNone(t, out, time.Hour)
	})
}

func TestAPISourceWithoutPodsSendsAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, stop := start(apiSource(t, APIConfig{Client: newAPIServer(t).client}).Run)
		defer stop()
		wantNext(t, out, "SET ")
	})
}

func TestAPISourceWaitsForNodeAndServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ready := newAPIServer(t), make(chan struct{})
		server.put("a", "x:1")
		out, stop := start(apiSource(t, APIConfig{Client: server.client, Ready: ready}).Run)
		defer stop()

		wantNone(t, out, time.Hour)
		server.put("a", "x:2")
		synctest.Wait()
		close(ready)
		wantNext(t, out, "SET a=x:2")
	})
}

func TestAPISourceGathersABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		out, stop := start(apiSource(t, APIConfig{Client: server.client}).Run)
		defer stop()
		wantNext(t, out, "SET ")
		time.Sleep(time.Second) // of fake time: the gap is over

		// When a pod comes alone, it does not wait.
		began := time.Now()
		server.put("p", "x")
		wantNext(t, out, "SET p=x")
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited for %s", waited)
		}
		// When many changes come while there is no reader, the reader gets them as one snapshot.
		for i := range 90 {
			server.put(fmt.Sprint("p", i), "x")
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if s := next(t, out); len(s.Pods) != 91 {
			t.Errorf("%d pods", len(s.Pods))
		}
		wantNone(t, out, time.Hour)
		// When many come to a reader who is quick, there are few snapshots.
		count := 0
		for i := range 100 {
			server.put("p", fmt.Sprint("x:", i))
			select {
			case <-out:
				count++
			case <-time.After(time.Millisecond):
			}
		}
		if count == 0 || count > 10 {
			t.Errorf("%d snapshots of 100 changes within 100 ms", count)
		}
	})
}

// A pod that is deleted by force is changed and removed at once. Its last version says
// how long it may take to stop: with it gone, the pod would get all of its own time.
func TestAPISourceSendsAShortGraceBeforeThePodGoes(t *testing.T) {
	for name, quick := range map[string]bool{"to a reader who waits": true, "to one who comes late": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(t)
				server.put("a", "x:1")
				server.put("b", "x:1")
				out, stop := start(apiSource(t, APIConfig{Client: server.client}).Run)
				defer stop()
				wantNext(t, out, "SET a=x:1 b=x:1")
				if quick {
					time.Sleep(time.Second) // of fake time: the gap is over
				}
				synctest.Wait()

				server.force("a")
				synctest.Wait()
				server.put("c", "x:1")
				server.put("a", "x:2") // its successor, with another UID
				if !quick {
					time.Sleep(time.Second)
					synctest.Wait()
				}

				var published *v1.Pod
				for _, p := range next(t, out).Pods {
					if p.UID == "uid-a" {
						published = p
					} else if p.Name == "a" {
						t.Error("its successor is there, too")
					}
				}
				if published == nil || published.DeletionTimestamp == nil || pod.Grace(published) != 0 {
					t.Fatalf("the reader got %+v", published)
				}
				// and then it is gone at once, for good, and its successor is there
				began := time.Now()
				for came := false; ; {
					select {
					case s := <-out:
						if slices.ContainsFunc(s.Pods, func(p *v1.Pod) bool { return p.UID == "uid-a" }) {
							t.Error("it is still there")
						}
						came = came || len(s.Pods) == 3
						continue
					case <-time.After(2 * apiGap):
					}
					if !came {
						t.Errorf("after %s there are not all", time.Since(began))
					}
					break
				}
			})
		})
	}
}

func TestAPISourceResumesALostWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		out, stop := start(apiSource(t, APIConfig{Client: server.client}).Run)
		defer stop()
		wantNext(t, out, "SET ")
		synctest.Wait()
		server.put("a", "x:1")
		wantNext(t, out, "SET a=x:1")
		server.asked()

		// A watch that ended goes on from where it was. Nothing is listed again.
		server.breakOff()
		wantNone(t, out, time.Minute)
		if asked := server.asked(); strings.Join(asked, ", ") != "watch 101" {
			t.Errorf("asked for %v", asked)
		}
		server.put("a", "x:2")
		wantNext(t, out, "SET a=x:2")

		// 410: all pods are listed, and if nothing is new, no snapshot is sent.
		server.asked()
		server.expire()
		wantNone(t, out, time.Minute)
		if asked := server.asked(); strings.Join(asked, ", ") != "list, watch 102" {
			t.Errorf("asked for %v", asked)
		}
	})
}

func TestAPISourceRemembersBeforeItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		server.put("a", "x:1")
		var remembered []string
		var log bytes.Buffer
		remember := func(_ context.Context, s pod.Snapshot) error {
			remembered = append(remembered, formatSnapshot(s))
			return errors.New("disk full")
		}
		out, stop := start(apiSource(t, APIConfig{Client: server.client, Remember: remember, Log: slog.New(slog.NewTextHandler(&log, nil))}).Run)
		defer stop()
		wantNext(t, out, "SET a=x:1")
		synctest.Wait()
		server.put("a", "x:2")
		wantNext(t, out, "SET a=x:2")
		if have := strings.Join(remembered, ", "); have != "SET a=x:1, SET a=x:2" {
			t.Errorf("remembered %s", have)
		}
		if said := log.String(); strings.Count(said, "disk full") != 1 {
			t.Errorf("the log:\n%s", said)
		}
	})
}

func TestAPISourceChecksItsConfiguration(t *testing.T) {
	for want, c := range map[string]APIConfig{
		"there is no client": {Node: "box", Log: quietLog()},
		"there is no log":    {Node: "box", Client: fake.NewClientset()},
		"is no DNS name":     {Node: "b/x", Client: fake.NewClientset(), Log: quietLog()},
	} {
		if _, err := NewAPI(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("have %v, want %q", err, want)
		}
	}
}

// The fake client can't stream a list; a real client does, and goes on from the
// bookmark at its end.
func TestAPISourceStreamsTheFirstList(t *testing.T) {
	var mu sync.Mutex
	var versions []string
	bookmarked := `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"` +
		metav1.InitialEventsAnnotationKey + `":"true"}}}}`
	added := func(name, version string) string {
		p := v1.Pod{
			TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: pod.UID(name), ResourceVersion: version},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "localhost/x"}}},
		}
		raw, err := json.Marshal(p)
		must(t, err)
		return `{"type":"ADDED","object":` + string(raw) + `}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("watch") == "" || q.Get("fieldSelector") != "spec.nodeName=box" {
			t.Errorf("unexpected request %s", r.URL)
		}
		mu.Lock()
		versions = append(versions, q.Get("resourceVersion"))
		round := len(versions)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case q.Get("sendInitialEvents") == "true":
			fmt.Fprintln(w, added("a", "3"))
			fmt.Fprintln(w, bookmarked)
			fmt.Fprintln(w, added("b", "8"))
			return // the connection is lost
		case round == 2:
			fmt.Fprintln(w, added("c", "9"))
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must(t, err)

	out, stop := start(apiSource(t, APIConfig{Client: client}).Run)
	defer server.CloseClientConnections()
	defer stop()
	for s := next(t, out); len(s.Pods) < 3; s = next(t, out) {
		if len(s.Pods) == 0 {
			t.Error("a snapshot came before the list was complete")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if have := strings.Join(versions, ","); have != ",8" {
		t.Errorf("watched from %q", have)
	}
}
