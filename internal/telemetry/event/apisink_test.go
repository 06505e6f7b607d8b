package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var eventResource = schema.GroupResource{Resource: "events"}

// apiServer is an API server in memory that takes events, unless it fails.
type apiServer struct {
	client *fake.Clientset
	log    bytes.Buffer

	mu       sync.Mutex
	requests []string
	fails    func(verb, name string) error // nil: nothing does
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{client: fake.NewSimpleClientset()}
	s.client.PrependReactor("*", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := ""
		switch a := a.(type) {
		case clienttesting.CreateAction:
			e, ok := a.GetObject().(*v1.Event)
			if !ok || e.ResourceVersion != "" {
				t.Errorf("unexpected: %v", a)
				return true, nil, errors.New("no event")
			}
			name = e.Name
		case clienttesting.PatchAction:
			name = a.GetName()
		}
		s.requests = append(s.requests, a.GetVerb()+" "+name)
		if s.fails == nil {
			return false, nil, nil
		}
		err := s.fails(a.GetVerb(), name)
		return err != nil, nil, err
	})
	return s
}

func (s *apiServer) failWith(f func(verb, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = f
}

func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.requests = nil }()
	return s.requests
}

// has are the counts of the events that the server has.
func (s *apiServer) has(t *testing.T) map[string]int32 {
	t.Helper()
	list, err := s.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int32{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Count
	}
	return out
}

// startSink runs a sink; the returned function ends it.
func startSink(t *testing.T, s *apiServer) (*APISink, func()) {
	t.Helper()
	sink, err := NewAPISink(SinkConfig{Client: s.client.CoreV1(), Log: slog.New(slog.NewTextHandler(&s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); sink.Run(ctx) }()
	return sink, func() { cancel(); <-ended }
}

// send tells of the nth time of an event.
func send(s *APISink, name string, nth int) {
	e := started(name, 0)
	e.Name, e.Count = name, int32(nth)
	var patch []byte
	if nth > 1 {
		patch = fmt.Appendf(nil, `{"count":%d}`, nth)
	}
	s.Send(e, patch)
}

func wantAsked(t *testing.T, s *apiServer, want ...string) {
	t.Helper()
	if got := s.asked(); !slices.Equal(got, want) {
		t.Errorf("got requests %q, want %q", got, want)
	}
}

func TestEventsAreMadeAndCountedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		defer stop()
		send(sink, "a", 1)
		synctest.Wait()
		send(sink, "a", 2)
		synctest.Wait()
		wantAsked(t, server, "create a", "patch a")
		if has := server.has(t); has["a"] != 2 {
			t.Errorf("the server has %v", has)
		}
		// One that the server forgot, as it does after an hour, is made again.
		if err := server.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("events"), "x", "a"); err != nil {
			t.Fatal(err)
		}
		server.asked()
		send(sink, "a", 3)
		synctest.Wait()
		wantAsked(t, server, "patch a", "create a")
		if has := server.has(t); has["a"] != 3 {
			t.Errorf("the server has %v", has)
		}
	})
}

func TestAServerThatIsAwayHearsOfEverythingLater(t *testing.T) {
	for name, failure := range map[string]error{
		"refused":      errors.New("connection refused"),
		"too busy":     apierrors.NewTooManyRequests("later", 1),
		"broken":       apierrors.NewInternalError(errors.New("no etcd")),
		"unauthorized": apierrors.NewUnauthorized("expired"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(t)
				sink, stop := startSink(t, server)
				defer stop()
				server.failWith(func(string, string) error { return failure })
				for i := range 5 {
					send(sink, fmt.Sprint("e", i), 1)
				}
				time.Sleep(5 * time.Minute)
				for nth := range 7 {
					send(sink, "e3", nth+2) // while it waits it is counted, and sent once
				}
				if n := len(server.asked()); n < 60 || n > 320 {
					t.Errorf("asked %d times in 5 minutes", n)
				}
				server.failWith(nil)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if has := server.has(t); len(has) != 5 || has["e3"] != 8 {
					t.Errorf("5 s later the server has %v", has)
				}
				// One is the list above, and one finds out that the server does not have e3.
				if n := len(server.asked()); n != 7 {
					t.Errorf("it took %d requests", n)
				}
				if said := server.log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "do not get to") || !strings.Contains(said, "again") {
					t.Errorf("the log:\n%s", said)
				}
			})
		})
	}
}

func TestAnEventThatTheServerCanNotTakeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		defer stop()
		server.failWith(func(_, name string) error {
			if name == "bad" {
				return apierrors.NewInternalError(errors.New("it crashed"))
			}
			return nil
		})
		send(sink, "bad", 1)
		send(sink, "good", 1)
		time.Sleep(3 * time.Second) // two pauses: the first event may fail twice before the second one is queued
		synctest.Wait()
		if has := server.has(t); has["good"] != 1 {
			t.Errorf("the server has %v", has)
		}
		// In the end it is given up.
		time.Sleep(waitingTTL)
		synctest.Wait()
		server.asked()
		time.Sleep(time.Hour)
		wantAsked(t, server)
	})
}

func TestWhatIsRefusedIsDropped(t *testing.T) {
	terminating := apierrors.NewForbidden(eventResource, "e", errors.New("namespace x is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		failure error
		lines   int // of the log
	}{
		"namespace goes":    {terminating, 0},
		"namespace is gone": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), 0},
		"invalid":           {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "e", nil), 0},
		"not allowed":       {apierrors.NewForbidden(eventResource, "e", errors.New("who are you?")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(t)
				sink, stop := startSink(t, server)
				defer stop()
				server.failWith(func(string, string) error { return c.failure })
				send(sink, "a", 1)
				send(sink, "b", 1)
				time.Sleep(time.Hour)
				wantAsked(t, server, "create a", "create b")
				if got := strings.Count(server.log.String(), "\n"); got != c.lines {
					t.Errorf("the log:\n%s", server.log.String())
				}
			})
		})
	}
}

func TestAnAnswerThatWasLostIsNoSecondEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		defer stop()
		// Given a server that makes events, and whose answers get lost
		lost := errors.New("broken pipe")
		server.client.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if lost == nil {
				return false, nil, nil
			}
			if create, ok := a.(clienttesting.CreateAction); !ok || server.client.Tracker().Create(a.GetResource(), create.GetObject(), "x") != nil {
				t.Errorf("%v failed", a)
			}
			return true, nil, lost
		})
		send(sink, "a", 1)
		send(sink, "b", 1)
		synctest.Wait()
		lost = nil
		// When they happen again meanwhile, or not
		send(sink, "a", 2)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if has := server.has(t); len(has) != 2 || has["a"] != 2 || has["b"] != 1 {
			t.Errorf("the server has %v", has)
		}
	})
}

func TestWhatHappensWhileAnEventIsSentIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		defer stop()
		again := sync.OnceFunc(func() { send(sink, "a", 2) })
		failing := true
		server.failWith(func(string, string) error {
			again()
			if failing {
				failing = false
				return errors.New("connection reset")
			}
			return nil
		})
		send(sink, "a", 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if has := server.has(t); has["a"] != 2 {
			t.Errorf("the server has %v", has)
		}
	})
}

func TestSendNeverBlocksAndDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		defer stop()
		server.failWith(func(string, string) error { return errors.New("connection refused") })
		for i := range waitingLimit + 50 {
			send(sink, fmt.Sprint("e", i), 1)
		}
		time.Sleep(time.Minute)
		server.failWith(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		has := server.has(t)
		if len(has) != waitingLimit || has[fmt.Sprint("e", waitingLimit+49)] != 1 {
			t.Errorf("the server has %d events", len(has))
		}
		said := server.log.String()
		if strings.Count(said, "the oldest are dropped") != 1 || strings.Count(said, `no longer dropped" dropped=50`) != 1 {
			t.Errorf("the log:\n%s", said)
		}
	})
}

func TestTheLastEventsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		synctest.Wait()
		for i := range 20 {
			send(sink, fmt.Sprint("e", i), 1)
		}
		stop()
		if has := server.has(t); len(has) != 20 {
			t.Errorf("the server has %d events", len(has))
		}
	})
}

func TestAServerThatIsAwayDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		sink, stop := startSink(t, server)
		server.failWith(func(string, string) error { return errors.New("connection refused") })
		send(sink, "a", 1)
		time.Sleep(time.Minute)
		began := time.Now()
		stop()
		if took := time.Since(began); took > finishTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAnAPISinkNeedsItsParts(t *testing.T) {
	if _, err := NewAPISink(SinkConfig{}); err == nil {
		t.Error("got a sink of nothing")
	}
}
