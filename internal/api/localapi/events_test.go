package localapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// fakeEvents serves the events that tests set, and records the arguments of List.
type fakeEvents struct {
	mu      sync.Mutex
	events  []*v1.Event
	asked   string
	changed chan struct{}
}

func (f *fakeEvents) List(namespace, name string, uid pod.UID) []*v1.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = fmt.Sprint(namespace, "/", name, "/", uid)
	return append([]*v1.Event(nil), f.events...)
}

func (f *fakeEvents) Watch(context.Context) <-chan struct{} { return f.changed }

func (f *fakeEvents) set(events ...*v1.Event) {
	f.mu.Lock()
	f.events = events
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func newEvent(name string, count int32) *v1.Event {
	return &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}, Count: count}
}

func TestEvents(t *testing.T) {
	s := start(t, 0)
	first := newEvent("a", 1)
	s.events.set(first, newEvent("b", 2))
	_, body := s.get("/v1/events?namespace=x&pod=web&uid=u-1")
	var list v1.EventList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "EventList" || len(list.Items) != 2 || list.Items[0].Kind != "Event" || list.Items[1].Name != "b" {
		t.Errorf("got %s", body)
	}
	if s.events.asked != "x/web/u-1" {
		t.Errorf("asked for %s", s.events.asked)
	}
	if first.Kind != "" {
		t.Error("an event was written to")
	}
	if code, body := s.get("/v1/events?watch=perhaps"); code != 400 || !strings.Contains(body, "has to be true or false") {
		t.Errorf("got %d %q", code, body)
	}
}

func TestWatchEvents(t *testing.T) {
	s := start(t, 0)
	a, b := newEvent("a", 1), newEvent("b", 1)
	s.events.set(a)
	next := s.watch("/v1/events?watch=1&pod=web")
	want := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			e := next()
			got := string(e.Type)
			if e.Event != nil {
				got = fmt.Sprintf("%s %s x%d", e.Type, e.Event.Name, e.Event.Count)
			}
			if got != text {
				t.Fatalf("got %q, want %q", got, text)
			}
		}
	}
	want("ADDED a x1", "SYNCED")
	s.events.set(b, newEvent("a", 2)) // it happened again
	want("ADDED b x1", "MODIFIED a x2")
	s.events.set(newEvent("c", 1)) // the others are no longer kept
	want("ADDED c x1")
	s.events.set(b)
	want("ADDED b x1")
}

func TestEventsOfUnknownObjects(t *testing.T) {
	// Given a server without events
	server, err := New(Config{Pods: &fakePods{}, Logs: fakeLogs{}, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(eventList(server.events.List("", "", "")))
	if err != nil || !strings.Contains(string(body), `"items":[]`) {
		t.Errorf("got %s (%v), want an empty list", body, err)
	}
	var was sentEvents
	if _, news := was.next(server.events.List("", "", "")); len(news) > 0 {
		t.Errorf("got news %v", news)
	}
	if c := server.events.Watch(t.Context()); c != nil {
		t.Error("a watch of nothing has something to tell")
	}
}
