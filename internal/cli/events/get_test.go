package events

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
	"berth/internal/cli/clitest"
	"berth/internal/telemetry/event"
)

// startRecorded starts an agent with the store of events of the real one.
func startRecorded(t *testing.T) (*clitest.Agent, *event.Store) {
	t.Helper()
	events, err := event.OpenStore(event.StoreConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return clitest.StartAgent(t, root, func(c *localapi.Config) { c.Events = events }), events
}

func TestGetEvents(t *testing.T) {
	a, events := startRecorded(t)
	events.Add(clitest.NewEvent("x", "web", "Started", "Started container app", 10*time.Minute))
	events.Add(clitest.Repeated(clitest.NewEvent("x", "web", "BackOff", "Back-off restarting", 2*time.Hour), 12, 5*time.Hour))
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
		got := a.Berth(t, strings.Fields(c.args)...)
		squeeze := func(s string) string {
			var lines []string
			for l := range strings.Lines(strings.TrimPrefix(s, "\n")) {
				lines = append(lines, strings.Join(strings.Fields(l), " "))
			}
			return strings.Join(lines, "\n")
		}
		out := strings.NewReplacer("120m", "2h", "10m1s", "10m").Replace(got.Out)
		if got.Code != 0 || got.Stderr != "" || squeeze(out) != squeeze(c.want) {
			t.Errorf("berth %s: got code %d, stderr %q,\n%s\nwant\n%s", c.args, got.Code, got.Stderr, got.Out, c.want)
		}
	}
	// Events of another namespace bring the column for it
	events.Add(clitest.NewEvent("y", "db", "Started", "up", time.Minute))
	if got := a.Berth(t, "get", "events"); !strings.HasPrefix(got.Out, "NAMESPACE") {
		t.Errorf("got %s, want a column of namespaces", got.Out)
	}
	for _, args := range []string{"get events --for nope", "get events -n z", "get events -n y --for web"} {
		if got := a.Berth(t, strings.Fields(args)...); got != (clitest.Result{Stderr: "No events found.\n"}) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
}

func TestGetEventsInFull(t *testing.T) {
	a, events := startRecorded(t)
	events.Add(clitest.NewEvent("x", "web", "Started", "up", 0))
	for output, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, into any) error { return yaml.UnmarshalStrict(b, into) },
	} {
		var list v1.EventList
		if err := decode([]byte(a.Berth(t, "get", "events", "-o", output).Out), &list); err != nil {
			t.Fatal(err)
		}
		if list.Kind != "EventList" || list.APIVersion != "v1" || len(list.Items) != 1 || list.Items[0].Kind != "Event" || list.Items[0].Message != "up" {
			t.Errorf("%s: got %+v", output, list)
		}
	}
	none := a.Berth(t, "get", "events", "-n", "z", "-o", "json")
	if !strings.Contains(none.Out, `"items": []`) {
		t.Errorf("got %s, want an empty list", none.Out)
	}
}

func TestGetEventsWatch(t *testing.T) {
	a, events := startRecorded(t)
	add := func(name, reason string, count int32) {
		e := clitest.NewEvent("x", name, reason, fmt.Sprint("number ", count), 0)
		e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
		e.Count = count
		events.Add(e)
	}
	add("web", "Pulled", 1)
	c := a.Start(t, "get", "events", "-w", "--for", "web")
	c.WantLines("LAST SEEN TYPE REASON OBJECT MESSAGE", "<unknown> Normal Pulled pod/web-node-1 number 1")
	add("db", "Pulled", 1)
	add("web", "Started", 1)
	c.WantLines("<unknown> Normal Started pod/web-node-1 number 1")
	add("web", "Pulled", 2)
	c.WantLines("<unknown> (x2 over <unknown>) Normal Pulled pod/web-node-1 number 2")
	c.Interrupt()
	c.WantEnd(0, "")
}

func TestGetEventsWatchOfNothing(t *testing.T) {
	a, events := startRecorded(t)
	c := a.Start(t, "get", "events", "-w", "-o", "json")
	events.Add(clitest.NewEvent("x", "web", "Started", "up", 0))
	var e v1.Event
	if err := json.NewDecoder(c.Out).Decode(&e); err != nil || e.Reason != "Started" {
		t.Errorf("got %+v (%v)", e, err)
	}
	c.Interrupt()
	if code := <-c.Code; code != 0 {
		t.Errorf("got code %d, want 0", code)
	}
}

func TestEventsAreSortedByTime(t *testing.T) {
	older, newer := clitest.NewEvent("x", "a", "A", "", time.Hour), clitest.NewEvent("x", "b", "B", "", time.Minute)
	micro := v1.Event{EventTime: metav1.NewMicroTime(time.Now().Add(-30 * time.Minute)), Reason: "M"}
	same := *newer
	same.Reason = "C"
	events := []v1.Event{*newer, same, micro, *older}
	sortByTime(events)
	var got string
	for _, e := range events {
		got += e.Reason
	}
	if got != "AMBC" {
		t.Errorf("got the order %s, want AMBC", got)
	}
}
