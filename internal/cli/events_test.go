package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/api/localapi"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// eventOf is an event of a pod of a manifest on node-1, which happened so long ago.
func eventOf(namespace, manifest, reason, message string, ago time.Duration) *v1.Event {
	at := metav1.NewTime(time.Now().Add(-ago))
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: manifest + "." + strings.ToLower(reason)},
		InvolvedObject: v1.ObjectReference{
			Kind: "Pod", Namespace: namespace, Name: manifest + "-node-1",
			UID: pod.UID(namespace + "-" + manifest), FieldPath: "spec.containers{app}",
		},
		Type: v1.EventTypeNormal, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: at, LastTimestamp: at, Source: v1.EventSource{Component: "berth", Host: "node-1"},
	}
}

// again makes e one that happened count times, the first time so long ago.
func again(e *v1.Event, count int32, ago time.Duration) *v1.Event {
	e.Count, e.Type = count, v1.EventTypeWarning
	e.FirstTimestamp = metav1.NewTime(time.Now().Add(-ago))
	return e
}

// startRecorded starts an agent with the store of events of the real one.
func startRecorded(t *testing.T) (*fakeAgent, *event.Store) {
	t.Helper()
	events, err := event.OpenStore(event.StoreConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return startAgent(t, testRoot, func(c *localapi.Config) { c.Events = events }), events
}

func TestGetEvents(t *testing.T) {
	a, events := startRecorded(t)
	events.Add(eventOf("x", "web", "Started", "Started container app", 10*time.Minute))
	events.Add(again(eventOf("x", "web", "BackOff", "Back-off restarting", 2*time.Hour), 12, 5*time.Hour))
	cases := []struct{ args, want string }{
		{"get events", `
LAST SEEN           TYPE      REASON    OBJECT           MESSAGE
2h (x12 over 5h)    Warning   BackOff   pod/web-node-1   Back-off restarting
10m                 Normal    Started   pod/web-node-1   Started container app
`},
		{"get event --for pod/web -A", `
NAMESPACE   LAST SEEN           TYPE      REASON    OBJECT           MESSAGE
x           2h (x12 over 5h)    Warning   BackOff   pod/web-node-1   Back-off restarting
x           10m                 Normal    Started   pod/web-node-1   Started container app
`},
		{"get ev -o wide", `
LAST SEEN   TYPE      REASON    OBJECT           SUBOBJECT              SOURCE          MESSAGE                 FIRST SEEN   COUNT   NAME
2h          Warning   BackOff   pod/web-node-1   spec.containers{app}   berth, node-1   Back-off restarting     5h           12      web.backoff
10m         Normal    Started   pod/web-node-1   spec.containers{app}   berth, node-1   Started container app   10m          1       web.started
`},
	}
	for _, c := range cases {
		// Ages may be a second off, and with them the width of a column.
		got := a.berth(t, strings.Fields(c.args)...)
		squeeze := func(s string) string {
			var lines []string
			for l := range strings.Lines(strings.TrimPrefix(s, "\n")) {
				lines = append(lines, strings.Join(strings.Fields(l), " "))
			}
			return strings.Join(lines, "\n")
		}
		out := strings.NewReplacer("120m", "2h", "10m1s", "10m").Replace(got.out)
		if got.code != 0 || got.stderr != "" || squeeze(out) != squeeze(c.want) {
			t.Errorf("berth %s: got code %d, stderr %q,\n%s\nwant\n%s", c.args, got.code, got.stderr, got.out, c.want)
		}
	}
	// Events of another namespace bring the column for it
	events.Add(eventOf("y", "db", "Started", "up", time.Minute))
	if got := a.berth(t, "get", "events"); !strings.HasPrefix(got.out, "NAMESPACE") {
		t.Errorf("got %s, want a column of namespaces", got.out)
	}
	for _, args := range []string{"get events --for nope", "get events -n z", "get events -n y --for web"} {
		if got := a.berth(t, strings.Fields(args)...); got != (result{stderr: "No events found.\n"}) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
}

func TestGetEventsInFull(t *testing.T) {
	a, events := startRecorded(t)
	events.Add(eventOf("x", "web", "Started", "up", 0))
	for output, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, into any) error { return yaml.UnmarshalStrict(b, into) },
	} {
		var list v1.EventList
		if err := decode([]byte(a.berth(t, "get", "events", "-o", output).out), &list); err != nil {
			t.Fatal(err)
		}
		if list.Kind != "EventList" || list.APIVersion != "v1" || len(list.Items) != 1 || list.Items[0].Kind != "Event" || list.Items[0].Message != "up" {
			t.Errorf("%s: got %+v", output, list)
		}
	}
	none := a.berth(t, "get", "events", "-n", "z", "-o", "json")
	if !strings.Contains(none.out, `"items": []`) {
		t.Errorf("got %s, want an empty list", none.out)
	}
}

func TestGetEventsWatch(t *testing.T) {
	a, events := startRecorded(t)
	add := func(name, reason string, count int32) {
		e := eventOf("x", name, reason, fmt.Sprint("number ", count), 0)
		e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
		e.Count = count
		events.Add(e)
	}
	add("web", "Pulled", 1)
	c := a.watch(t, "get", "events", "-w", "--for", "web")
	c.want("LAST SEEN TYPE REASON OBJECT MESSAGE", "<unknown> Normal Pulled pod/web-node-1 number 1")
	add("db", "Pulled", 1)
	add("web", "Started", 1)
	c.want("<unknown> Normal Started pod/web-node-1 number 1")
	add("web", "Pulled", 2)
	c.want("<unknown> (x2 over <unknown>) Normal Pulled pod/web-node-1 number 2")
	c.interrupt()
	c.wantEnd(0, "")
}

func TestGetEventsWatchOfNothing(t *testing.T) {
	a, events := startRecorded(t)
	c := a.watch(t, "get", "events", "-w", "-o", "json")
	events.Add(eventOf("x", "web", "Started", "up", 0))
	var e v1.Event
	if err := json.NewDecoder(c.out).Decode(&e); err != nil || e.Reason != "Started" {
		t.Errorf("got %+v (%v)", e, err)
	}
	c.interrupt()
	if code := <-c.code; code != 0 {
		t.Errorf("got code %d, want 0", code)
	}
}

func TestEventsAreSortedByTime(t *testing.T) {
	older, newer := eventOf("x", "a", "A", "", time.Hour), eventOf("x", "b", "B", "", time.Minute)
	micro := v1.Event{EventTime: metav1.NewMicroTime(time.Now().Add(-30 * time.Minute)), Reason: "M"}
	same := *newer
	same.Reason = "C"
	events := []v1.Event{*newer, same, micro, *older}
	sortEvents(events)
	var got string
	for _, e := range events {
		got += e.Reason
	}
	if got != "AMBC" {
		t.Errorf("got the order %s, want AMBC", got)
	}
}
