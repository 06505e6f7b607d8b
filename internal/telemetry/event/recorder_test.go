package event

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/leaktest"
	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func newPod(namespace, name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: pod.UID("uid-" + name)},
		Spec: v1.PodSpec{
			InitContainers:      []v1.Container{{Name: "setup"}},
			Containers:          []v1.Container{{Name: "app"}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func openStore(t *testing.T, c StoreConfig) *Store {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.State, err = statefile.New(statefile.Config{Log: c.Log}); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRecorder(t *testing.T, c Config) *Recorder {
	t.Helper()
	c.Node = "node-1"
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Store == nil {
		c.Store = openStore(t, StoreConfig{})
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// takeIn lets r handle all events of its queue.
func takeIn(r *Recorder) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Run(ctx)
}

// texts are the events of a store: how often, why and what.
func texts(s *Store) []string {
	var out []string
	for _, e := range s.List("", "", "") {
		out = append(out, fmt.Sprintf("%dx %s %s", e.Count, e.Reason, e.Message))
	}
	return out
}

func wantTexts(t *testing.T, s *Store, want ...string) {
	t.Helper()
	if got := texts(s); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("got a recorder of nothing")
	}
	if _, err := OpenStore(StoreConfig{}); err == nil {
		t.Error("got a store without a log")
	}
	if _, err := OpenStore(StoreConfig{Log: slog.New(slog.DiscardHandler), Max: -1}); err == nil {
		t.Error("got a store of less than nothing")
	}
}

func TestAnEventSaysWhatWhereAndWho(t *testing.T) {
	r := newRecorder(t, Config{})
	r.RecordContainerf(newPod("x", "web"), "app", v1.EventTypeWarning, BackOff, "wait %ds", 10)
	takeIn(r)
	events := r.config.Store.List("x", "web", "uid-web")
	if len(events) != 1 {
		t.Fatalf("got %d events, want 1", len(events))
	}
	e := events[0]
	about := v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "x", Name: "web", UID: "uid-web", FieldPath: "spec.containers{app}"}
	if e.InvolvedObject != about {
		t.Errorf("it is about %+v, want %+v", e.InvolvedObject, about)
	}
	if e.Source != (v1.EventSource{Component: "berth", Host: "node-1"}) || e.ReportingController != "berth" || e.ReportingInstance != "node-1" {
		t.Errorf("it is from %+v, %s on %s", e.Source, e.ReportingController, e.ReportingInstance)
	}
	if e.Type != "Warning" || e.Reason != "BackOff" || e.Message != "wait 10s" || e.Count != 1 || e.FirstTimestamp.IsZero() || e.LastTimestamp != e.FirstTimestamp {
		t.Errorf("got %+v", e)
	}
	if !strings.HasPrefix(e.Name, "web.") || e.Namespace != "x" {
		t.Errorf("its name is %s/%s", e.Namespace, e.Name)
	}
}

// Kubectl looks for the events of a node by its name in the place of its UID.
func TestAnEventOfTheNodeIsFoundByItsName(t *testing.T) {
	r := newRecorder(t, Config{Component: "kubelet"})
	r.RecordNode(v1.EventTypeWarning, "Rebooted", "again")
	r.RecordNode(v1.EventTypeWarning, "Rebooted", "again")
	takeIn(r)
	events := r.config.Store.List("", "", "")
	if len(events) != 1 || events[0].Count != 2 || events[0].Namespace != "default" {
		t.Fatalf("got %+v", events)
	}
	if about := events[0].InvolvedObject; about != (v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}) {
		t.Errorf("it is about %+v", about)
	}
	if from := events[0].Source; from != (v1.EventSource{Component: "kubelet", Host: "node-1"}) || events[0].ReportingController != "kubelet" {
		t.Errorf("it is from %+v", from)
	}
}

func TestFieldPath(t *testing.T) {
	for name, want := range map[string]string{
		"":      "",
		"app":   "spec.containers{app}",
		"setup": "spec.initContainers{setup}",
		"debug": "spec.ephemeralContainers{debug}",
		"lost":  "spec.containers{lost}", // of an orphan nothing more is known
	} {
		if got := fieldPath(newPod("x", "web"), name); got != want {
			t.Errorf("container %q: got %q, want %q", name, got, want)
		}
	}
}

func TestMessagesAreShortAndSafe(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{"plain, with ünïcode", "plain, with ünïcode"},
		{"two\nlines\tand more\r\n", "two lines and more"},
		{"\x1b[31mred\x00", "?[31mred?"},
		{"\u202eevil", "?evil"},
		{"bad \xff byte", "bad \ufffd byte"},
		{strings.Repeat("x", maxMessage), strings.Repeat("x", maxMessage)},
		{strings.Repeat("x", maxMessage+1), strings.Repeat("x", maxMessage-3) + "..."},
	} {
		if got := oneLine(c.message, maxMessage); got != c.want {
			t.Errorf("%q: got %q, want %q", c.message, got, c.want)
		}
	}
	for _, message := range []string{strings.Repeat("ü", maxMessage), strings.Repeat("\xff", maxMessage), strings.Repeat("x", 1<<20)} {
		if got := oneLine(message, maxMessage); len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("%.10q...: got %d bytes, valid %t", message, len(got), utf8.ValidString(got))
		}
	}
}

func TestALongNameStillMakesAnEvent(t *testing.T) {
	r := newRecorder(t, Config{})
	r.Record(newPod("x", strings.Repeat("n", 253)), v1.EventTypeNormal, Started, "up")
	takeIn(r)
	if events := r.config.Store.List("", "", ""); len(events) != 1 || len(events[0].Name) > 253 {
		t.Errorf("got %d events, want 1 whose name is not too long", len(events))
	}
}

func TestTheSameEventIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, Config{})
		begin := time.Now()
		for range 3 {
			r.Record(newPod("x", "web"), v1.EventTypeWarning, BackOff, "again")
			time.Sleep(time.Minute)
		}
		r.Record(newPod("x", "web"), v1.EventTypeNormal, Started, "up")
		r.Record(newPod("x", "db"), v1.EventTypeWarning, BackOff, "again")
		takeIn(r)
		wantTexts(t, r.config.Store, "3x BackOff again", "1x Started up", "1x BackOff again")
		e := r.config.Store.List("", "web", "")[0]
		if !e.FirstTimestamp.Time.Equal(begin) || e.LastTimestamp.Sub(begin) != 2*time.Minute {
			t.Errorf("it happened from %v to %v", e.FirstTimestamp, e.LastTimestamp)
		}
	})
}

func TestSimilarEventsAreCombined(t *testing.T) {
	r := newRecorder(t, Config{})
	const recorded = 15
	for i := range recorded {
		r.Recordf(newPod("x", "web"), v1.EventTypeWarning, "Unhealthy", "attempt %d", i)
	}
	takeIn(r)
	got := texts(r.config.Store)
	if want := "6x Unhealthy (combined from similar events): attempt 14"; len(got) != 10 || got[9] != want {
		t.Errorf("got %q, want 10 with the last being %q", got, want)
	}
	combined := r.config.Store.List("", "", "")[9]
	if combined.ReportingController != "berth" || combined.ReportingInstance != "node-1" {
		t.Errorf("its reporter is %q on %q", combined.ReportingController, combined.ReportingInstance)
	}
}

func TestTheRateOfAPodIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, Config{})
		// Given a pod that had more than its share
		for range 40 {
			r.Record(newPod("x", "noisy"), v1.EventTypeNormal, Started, "up")
		}
		r.Record(newPod("x", "quiet"), v1.EventTypeNormal, Started, "up")
		takeIn(r)
		// Then events over the limit are dropped, and those of others are not
		wantTexts(t, r.config.Store, "25x Started up", "1x Started up")
		// When time goes by, its events are recorded again, and all are counted
		time.Sleep(5*time.Minute + time.Second)
		r.Record(newPod("x", "noisy"), v1.EventTypeNormal, Started, "up")
		takeIn(r)
		wantTexts(t, r.config.Store, "1x Started up", "41x Started up")
	})
}

func TestRecordNeverBlocks(t *testing.T) {
	// Given a recorder whose sink is stuck
	var log bytes.Buffer
	stuck, free := make(chan struct{}, 1), make(chan struct{})
	r := newRecorder(t, Config{Log: newLog(&log), Sink: func(*v1.Event, []byte) {
		select {
		case stuck <- struct{}{}:
		default:
		}
		<-free
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	record := func(n int) {
		for range n {
			r.Record(newPod("x", "web"), v1.EventTypeNormal, Started, "up")
		}
	}
	record(1)
	<-stuck
	// When more events come than can wait, the caller goes on
	record(queueLength + 7)
	if got := r.Dropped(); got != 7 {
		t.Errorf("%d were dropped, want 7", got)
	}
	// Then it is logged once, and once that it is over
	close(free)
	cancel()
	<-ended
	if got := log.String(); strings.Count(got, "are dropped") != 1 || strings.Count(got, `no longer dropped" dropped=7`) != 1 {
		t.Errorf("got log %s", got)
	}
}

func TestCountingGoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	for range 3 {
		r := newRecorder(t, Config{Store: openStore(t, StoreConfig{Path: path})})
		r.Record(newPod("x", "web"), v1.EventTypeWarning, BackOff, "again")
		takeIn(r)
	}
	wantTexts(t, openStore(t, StoreConfig{Path: path}), "3x BackOff again")
}

func TestTheSinkIsGivenEventsAndPatches(t *testing.T) {
	type given struct {
		e     *v1.Event
		patch string
	}
	var got []given
	r := newRecorder(t, Config{Sink: func(e *v1.Event, patch []byte) { got = append(got, given{e, string(patch)}) }})
	for range 2 {
		r.Record(newPod("x", "web"), v1.EventTypeNormal, Started, "up")
	}
	takeIn(r)
	if len(got) != 2 || got[0].patch != "" || got[1].e.Name != got[0].e.Name || !strings.Contains(got[1].patch, `"count":2`) {
		t.Errorf("got %+v, want one that is new and a patch of it", got)
	}
}

func TestRecordAtTheSameTime(t *testing.T) {
	r := newRecorder(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			r.Recordf(newPod("x", fmt.Sprint("pod-", i)), v1.EventTypeNormal, Created, "container %d", i)
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	cancel()
	<-ended
	if got := len(r.config.Store.List("", "", "")); got != 8 {
		t.Errorf("got %d events, want 8", got)
	}
}
