package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"berth/internal/lib/pod"
)

var podResource = schema.GroupResource{Resource: "pods"}

// server is an API server with pods, of which statuses can be patched and which can
// be deleted. All else fails the test.
type server struct {
	t *testing.T

	mu       sync.Mutex
	version  int
	pods     map[string]*v1.Pod
	requests []string           // that came through: "patch a Running", "delete a"
	attempts int                // all of them
	fail     func(string) error // answers instead, if not nil
	hold     func(string)       // called outside of the lock before a request is served
	busy     map[string]int     // requests under way, by pod
	most     int                // pods at the same time
	deletes  []metav1.DeleteOptions
	leaveOut func(*v1.PodStatus) // what the server does not know
}

func newServer(t *testing.T, names ...string) *server {
	s := &server{t: t, pods: map[string]*v1.Pod{}, busy: map[string]int{}}
	for _, name := range names {
		s.put(name, types.UID("uid-"+name))
	}
	return s
}

func (s *server) put(name string, uid types.UID) *v1.Pod {
	s.version++
	s.pods[name] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid, ResourceVersion: strconv.Itoa(s.version)}}
	return s.pods[name]
}

// pod returns a pod as a source would hand it over.
func (s *server) pod(name string) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[name].DeepCopy()
}

// overwrite changes a status as another program does.
func (s *server) overwrite(name string, status v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	p := s.pods[name].DeepCopy()
	p.Status, p.ResourceVersion = status, strconv.Itoa(s.version)
	s.pods[name] = p
}

// Pods makes the server a client. (The fake one of client-go serves one request at a time.) The
// writer never reads before it writes: a read fails the test.
func (s *server) Pods(string) corev1.PodInterface { return servedPods{s: s} }

type servedPods struct {
	corev1.PodInterface
	s *server
}

func (p servedPods) Patch(_ context.Context, name string, kind types.PatchType, raw []byte, _ metav1.PatchOptions, sub ...string) (*v1.Pod, error) {
	if kind != types.StrategicMergePatchType || !slices.Equal(sub, []string{"status"}) {
		p.s.t.Errorf("unexpected patch of %s: %s %v", name, kind, sub)
	}
	var updated *v1.Pod
	err := p.s.serve(name, func(held *v1.Pod) (err error) {
		updated, err = p.s.patch(held, raw)
		return err
	})
	return updated, err
}

func (p servedPods) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.Pod, error) {
	p.s.t.Errorf("pod %s was read", name)
	return nil, apierrors.NewNotFound(podResource, name)
}

func (p servedPods) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	return p.s.serve(name, func(held *v1.Pod) error {
		p.s.deletes = append(p.s.deletes, o)
		if *o.Preconditions.UID != held.UID {
			return apierrors.NewConflict(podResource, name, errors.New("the UID in the precondition (x) does not match the UID in record (y)"))
		}
		p.s.requests = append(p.s.requests, "delete "+name)
		delete(p.s.pods, name)
		return nil
	})
}

// serve serves a request for a pod.
func (s *server) serve(name string, request func(*v1.Pod) error) error {
	s.mu.Lock()
	if s.busy[name]++; s.busy[name] > 1 {
		s.t.Errorf("two requests for %s at the same time", name)
	}
	s.most = max(s.most, len(s.busy))
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		hold(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, name)
	s.attempts++
	if s.fail != nil {
		if err := s.fail(name); err != nil {
			return err
		}
	}
	p := s.pods[name]
	if p == nil {
		return apierrors.NewNotFound(podResource, name)
	}
	return request(p)
}

func (s *server) patch(p *v1.Pod, raw []byte) (*v1.Pod, error) {
	before, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, raw, v1.Pod{})
	if err != nil {
		return nil, err
	}
	updated := &v1.Pod{}
	if err := json.Unmarshal(after, updated); err != nil {
		return nil, err
	}
	if updated.UID != p.UID {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, p.Name, nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Field: "metadata.uid", Message: "field is immutable"}}
		return nil, err
	}
	if s.leaveOut != nil {
		s.leaveOut(&updated.Status)
	}
	s.version++
	updated.ResourceVersion = strconv.Itoa(s.version)
	s.pods[p.Name] = updated
	s.requests = append(s.requests, "patch "+p.Name+" "+updated.Status.Message)
	return updated.DeepCopy(), nil
}

// served returns the requests since the last call.
func (s *server) served() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.requests, ", ")
	s.requests = nil
	return out
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// speak returns a status with a message, by which tests recognize it.
func speak(message string) v1.PodStatus { return v1.PodStatus{Phase: v1.PodRunning, Message: message} }

// ready is a status that others wait for.
func ready(message string) v1.PodStatus {
	s := speak(message)
	s.Conditions = []v1.PodCondition{cond(v1.PodReady, "True")}
	return s
}

func startWriter(t *testing.T, s *server, workers int, log *slog.Logger) (*Writer, func()) {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w, err := NewWriter(WriterConfig{Client: s, Log: log, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return w, func() {
		cancel()
		<-done
	}
}

func wantServed(t *testing.T, s *server, want string) {
	t.Helper()
	if have := s.served(); have != want {
		t.Errorf("served %q\nwant   %q", have, want)
	}
}

// inBubble runs a test with a server of these pods and a writer.
func inBubble(t *testing.T, workers int, pods []string, test func(*testing.T, *server, *Writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, pods...)
		w, stop := startWriter(t, s, workers, nil)
		defer stop()
		test(t, s, w)
	})
}

func TestTheWriterWritesWhatIsNew(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		p := s.pod("a")
		w.Write(p, speak("1"))
		wantServed(t, s, "patch a 1")
		w.Write(p, speak("1")) // p is from before: it says nothing about what the server holds now
		w.Write(s.pod("a"), speak("1"))
		wantServed(t, s, "")
		w.Write(p, speak("2"))
		wantServed(t, s, "patch a 2")
	})
}

func TestTheWriterWritesNothingAfterARestart(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		s.overwrite("a", speak("as before"))
		w.Write(s.pod("a"), speak("as before"))
		wantServed(t, s, "")
	})
}

func TestTheNewestStatusWins(t *testing.T) {
	inBubble(t, 2, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		release := make(chan struct{})
		s.set(func() { s.hold = func(string) { <-release } })
		p := s.pod("a")
		for i := range 100 {
			w.Write(p, speak(strconv.Itoa(i)))
			synctest.Wait() // the first one is on its way by now
		}
		close(release)
		wantServed(t, s, "patch a 0, patch a 99")
	})
}

func TestPodsAreWrittenAtTheSameTime(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("p", i))
	}
	inBubble(t, 4, names, func(t *testing.T, s *server, w *Writer) {
		s.set(func() { s.hold = func(string) { time.Sleep(100 * time.Millisecond) } })
		began := time.Now()
		for _, name := range names {
			w.Write(s.pod(name), speak("1"))
		}
		for s.count() < len(names) {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 550*time.Millisecond || s.most != 4 {
			t.Errorf("it took %s, with %d at a time", took, s.most)
		}
	})
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

func TestReadyAndAddressesGoFirst(t *testing.T) {
	inBubble(t, 1, []string{"first", "a", "b", "c", "ready", "ip"}, func(t *testing.T, s *server, w *Writer) {
		release := make(chan struct{})
		s.set(func() { s.hold = func(string) { <-release } })
		w.Write(s.pod("first"), speak("1"))
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			w.Write(s.pod(name), speak("1"))
		}
		w.Write(s.pod("ready"), ready("1"))
		address := speak("1")
		address.PodIP = "10.0.0.1"
		w.Write(s.pod("ip"), address)
		w.Write(s.pod("b"), ready("2")) // it has waited, and now it matters
		close(release)
		wantServed(t, s, "patch first 1, patch ready 1, patch ip 1, patch b 2, patch a 1, patch c 1")
	})
}

func TestTheOthersHaveTheirTurn(t *testing.T) {
	names := []string{"first", "plain"}
	for i := range 20 {
		names = append(names, fmt.Sprint("r", i))
	}
	inBubble(t, 1, names, func(t *testing.T, s *server, w *Writer) {
		release := make(chan struct{})
		s.set(func() { s.hold = func(string) { <-release } })
		w.Write(s.pod("first"), speak("1"))
		synctest.Wait()
		w.Write(s.pod("plain"), speak("1"))
		for _, name := range names[2:] {
			w.Write(s.pod(name), ready("1"))
		}
		close(release)
		if at := slices.Index(strings.Split(s.served(), ", "), "patch plain 1"); at < 1 || at > 10 {
			t.Errorf("it was number %d", at)
		}
	})
}

func TestTheWriterLeavesAPodThatIsGone(t *testing.T) {
	for name, change := range map[string]func(s *server){
		"no longer there":     func(s *server) { delete(s.pods, "a") },
		"another of its name": func(s *server) { s.put("a", "other") },
		"a conflict with it": func(s *server) {
			s.fail = func(string) error {
				return apierrors.NewConflict(podResource, "a", errors.New("Precondition failed: UID in precondition: x, UID in object meta: y"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
				p := s.pod("a")
				s.set(func() { change(s) })
				w.Write(p, speak("1"))
				synctest.Wait()
				w.Write(p, speak("2"))
				w.Delete(p)
				time.Sleep(time.Hour)
				wantServed(t, s, "")
				if n := s.count(); n != 1 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// A load balancer without servers says that nothing is found, in words of its own.
func TestOnlyAnAPIServerKnowsThatAPodIsGone(t *testing.T) {
	inBubble(t, 1, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		plain := apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", podResource, "a", "default backend - 404", 0, true)
		s.set(func() { s.fail = func(string) error { return plain } })
		p := s.pod("a")
		w.Write(p, speak("1"))
		synctest.Wait()
		s.set(func() { s.fail = nil })
		time.Sleep(time.Second)
		wantServed(t, s, "patch a 1")

		s.set(func() { s.fail = func(string) error { return plain } })
		w.Delete(p)
		synctest.Wait()
		s.set(func() { s.fail = nil })
		time.Sleep(time.Second)
		wantServed(t, s, "delete a")
	})
}

func TestAPodThatWasTakenForGoneIsWrittenOnceItIsSeen(t *testing.T) {
	inBubble(t, 1, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		p := s.pod("a")
		w.Write(p, speak("1"))
		wantServed(t, s, "patch a 1")
		s.set(func() { s.fail = func(string) error { return apierrors.NewNotFound(podResource, "a") } })
		w.Write(p, speak("2"))
		synctest.Wait()
		s.set(func() { s.fail = nil })
		w.Write(p, speak("2"))
		wantServed(t, s, "")

		s.overwrite("a", speak("1")) // a new version of the same
		w.Write(s.pod("a"), speak("2"))
		wantServed(t, s, "patch a 2")
	})
}

func TestAConflictOfAnotherKindPasses(t *testing.T) {
	inBubble(t, 1, []string{"liquid"}, func(t *testing.T, s *server, w *Writer) {
		s.set(func() {
			s.fail = func(string) error {
				return apierrors.NewConflict(podResource, "liquid", errors.New("the object has been modified"))
			}
		})
		w.Write(s.pod("liquid"), speak("1"))
		synctest.Wait()
		s.set(func() { s.fail = nil })
		time.Sleep(time.Second)
		wantServed(t, s, "patch liquid 1")
	})
}

// While the API server is away the newest status of each pod is kept, and the server
// is asked rarely. That is said once. All is written soon after it is back.
func TestNoStatusIsLostInAnOutage(t *testing.T) {
	for name, failure := range map[string]error{
		"refused": fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"timeout": context.DeadlineExceeded,
		"429":     apierrors.NewTooManyRequests("slow down", 1),
		"500":     apierrors.NewInternalError(errors.New("no quorum")),
		"503":     apierrors.NewServiceUnavailable("starting"),
		"401":     apierrors.NewUnauthorized("certificate expired"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newServer(t, "a", "b")
				s.fail = func(string) error { return failure }
				w, stop := startWriter(t, s, 4, slog.New(slog.NewTextHandler(&log, nil)))
				defer stop()
				a, b := s.pod("a"), s.pod("b")
				for i := range 300 {
					w.Write(a, speak(strconv.Itoa(i)))
					w.Write(b, speak(strconv.Itoa(i)))
					time.Sleep(time.Second)
				}
				if n := s.count(); n < 100 || n > 400 {
					t.Errorf("%d attempts in 5 minutes", n)
				}
				s.set(func() { s.fail = nil })
				time.Sleep(5 * time.Second)
				if have := s.served(); have != "patch a 299, patch b 299" && have != "patch b 299, patch a 299" {
					t.Errorf("served %q", have)
				}
				if said := log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "do not get") || !strings.Contains(said, "again") {
					t.Errorf("the log:\n%s", said)
				}
			})
		})
	}
}

// A server that fails now and then is not worth a line each time.
func TestFailuresThatComeAndGoAreLoggedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, n := newServer(t, "a", "b", "c"), 0
		s.fail = func(string) error {
			if n++; n%10 == 0 {
				return apierrors.NewInternalError(errors.New("leader changed"))
			}
			return nil
		}
		w, stop := startWriter(t, s, 4, slog.New(slog.NewTextHandler(&log, nil)))
		defer stop()
		for i := range 60 * 20 {
			w.Write(s.pod([]string{"a", "b", "c"}[i%3]), speak(strconv.Itoa(i)))
			time.Sleep(time.Second / 20)
		}
		synctest.Wait()
		if said := log.String(); strings.Count(said, "\n") > 4 {
			t.Errorf("%d lines in a minute:\n%s", strings.Count(said, "\n"), said)
		}
	})
}

// A refused status is not sent again, so each refusal has to be logged.
func TestEveryRefusalIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(t, "a", "b")
		s.fail = func(string) error { return apierrors.NewBadRequest("not like that") }
		w, stop := startWriter(t, s, 4, slog.New(slog.NewTextHandler(&log, nil)))
		defer stop()
		w.Write(s.pod("a"), speak("1"))
		time.Sleep(time.Second)
		s.set(func() { s.fail = nil })
		w.Write(s.pod("a"), speak("2"))
		time.Sleep(time.Second)
		s.set(func() { s.fail = func(string) error { return apierrors.NewBadRequest("not like that") } })
		w.Write(s.pod("b"), speak("1"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if said := log.String(); strings.Count(said, "refuses a status") != 2 || !strings.Contains(said, "uid-b") {
			t.Errorf("the log:\n%s", said)
		}
	})
}

func TestOneFailingPodHoldsUpNoOther(t *testing.T) {
	inBubble(t, 1, []string{"bad", "good"}, func(t *testing.T, s *server, w *Writer) {
		s.set(func() {
			s.fail = func(name string) error {
				if name == "bad" {
					return apierrors.NewInternalError(errors.New("webhook"))
				}
				return nil
			}
		})
		w.Write(s.pod("bad"), speak("1"))
		w.Write(s.pod("good"), speak("1"))
		wantServed(t, s, "patch good 1")
	})
}

func TestARefusedStatusIsNotRepeated(t *testing.T) {
	inBubble(t, 1, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		s.set(func() {
			s.fail = func(string) error { return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil) }
		})
		p := s.pod("a")
		w.Write(p, speak("bad"))
		time.Sleep(time.Hour)
		w.Write(p, speak("bad"))
		synctest.Wait()
		if n := s.count(); n != 1 {
			t.Errorf("%d attempts", n)
		}
		s.set(func() { s.fail = nil })
		w.Write(p, speak("good"))
		wantServed(t, s, "patch a good")
	})
}

func TestADeletionFollowsTheLastStatus(t *testing.T) {
	inBubble(t, 2, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		s.set(func() { s.fail = func(string) error { return apierrors.NewInternalError(errors.New("away")) } })
		p := s.pod("a")
		w.Write(p, speak("last"))
		w.Delete(p)
		w.Delete(p)
		w.Forget(p.UID) // its worker is done with it; the deletion is not
		synctest.Wait()
		s.set(func() { s.fail = nil })
		time.Sleep(time.Minute)
		wantServed(t, s, "patch a last, delete a")
		if o := s.deletes[0]; *o.GracePeriodSeconds != 0 || *o.Preconditions.UID != p.UID {
			t.Errorf("delete options %+v", o)
		}
		if len(w.pods)+len(w.faults.kindOf)+len(w.faults.hit) > 0 {
			t.Errorf("still known: %v", w.pods)
		}
	})
}

func TestADeletionSparesAnotherPodOfTheName(t *testing.T) {
	inBubble(t, 2, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		p := s.pod("a")
		s.set(func() { s.put("a", "other") })
		w.Delete(p)
		time.Sleep(time.Hour)
		wantServed(t, s, "")
		if s.pod("a").UID != "other" || s.count() != 1 {
			t.Errorf("%d attempts", s.count())
		}
	})
}

func TestAForgottenPodIsNotWritten(t *testing.T) {
	inBubble(t, 1, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		s.set(func() { s.fail = func(string) error { return apierrors.NewInternalError(errors.New("away")) } })
		p := s.pod("a")
		w.Write(p, speak("1"))
		synctest.Wait()
		w.Forget(p.UID)
		w.Forget(p.UID)
		s.set(func() { s.fail = nil })
		time.Sleep(time.Hour)
		wantServed(t, s, "")
		if len(w.pods)+len(w.faults.kindOf) > 0 {
			t.Error("it is still known")
		}
	})
}

func TestTheWriterChecksItsConfiguration(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	client := newServer(t)
	for _, c := range []WriterConfig{{Log: log, Workers: 1}, {Client: client, Workers: 1}, {Client: client, Log: log}} {
		if _, err := NewWriter(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// The requests as they go over the wire: one PATCH of the status, one DELETE, no GET.
func TestTheWriterOnTheWire(t *testing.T) {
	requests := make(chan string, 10)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"6"},"status":{"phase":"Running"}}`)
	}))
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(WriterConfig{Client: client.CoreV1(), Log: slog.New(slog.DiscardHandler), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: pod.UID("u"), ResourceVersion: "5"}}
	w.Write(p, v1.PodStatus{Phase: v1.PodRunning})
	want := `PATCH /api/v1/namespaces/ns/pods/a/status application/strategic-merge-patch+json {"metadata":{"uid":"u"},"status":{"phase":"Running"}}`
	if have := <-requests; have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	w.Delete(p)
	if have := <-requests; !strings.HasPrefix(have, "DELETE /api/v1/namespaces/ns/pods/a application/json") ||
		!strings.Contains(have, `"gracePeriodSeconds":0`) || !strings.Contains(have, `"preconditions":{"uid":"u"}`) {
		t.Errorf("have %s", have)
	}
	cancel()
	<-done
	if len(requests) > 0 {
		t.Errorf("and also %s", <-requests)
	}
}
