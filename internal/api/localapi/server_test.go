package localapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/lib/pod"
)

func TestNewRefusesAnIncompleteConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("got a server of nothing")
	}
}

func TestHealthIsThatOfTheNode(t *testing.T) {
	s := startWith(t, func(c *Config) {
		c.Node = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.URL.Path+" is sick", http.StatusInternalServerError)
		})
	})
	if code, body := s.get("/healthz"); code != http.StatusInternalServerError || body != "/healthz is sick\n" {
		t.Errorf("got %d %q", code, body)
	}
}

func TestHealthAndVersion(t *testing.T) {
	s := start(t, 0)
	if code, body := s.get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("health: got %d %q", code, body)
	}
	_, body := s.get("/v1/version")
	var v api.Version
	if err := json.Unmarshal([]byte(body), &v); err != nil || v != api.NewVersion("1.2.3") {
		t.Errorf("version: got %q (%v)", body, err)
	}
	if code, _ := s.get("/nope"); code != 404 {
		t.Errorf("an unknown path: got %d, want 404", code)
	}
	r, err := s.client.Post("http://berth/v1/pods", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a post: got %d, want 405", r.StatusCode)
	}
}

func TestList(t *testing.T) {
	s := start(t, 0)
	refusal := pod.Refusal{Source: "file", Origin: "bad.yaml", Line: 3, Message: "no name"}
	s.pods.set([]pod.Refusal{refusal}, newPod("x", "a"), newPod("y", "b"))
	names := func(url string) []string {
		code, body := s.get(url)
		if code != 200 {
			return []string{body}
		}
		var list api.List
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		if list.Pods.Kind != "PodList" || list.Pods.APIVersion != "v1" || !slices.Equal(list.Refused, []pod.Refusal{refusal}) {
			t.Errorf("%s: got a list of %s %s, refused %v", url, list.Pods.APIVersion, list.Pods.Kind, list.Refused)
		}
		got := []string{}
		for _, p := range list.Pods.Items {
			got = append(got, p.Kind+" "+p.Name)
		}
		return got
	}
	for url, want := range map[string][]string{
		"/v1/pods":                         {"Pod a-node-1", "Pod b-node-1"},
		"/v1/pods?namespace=y":             {"Pod b-node-1"},
		"/v1/pods?name=a":                  {"Pod a-node-1"},
		"/v1/pods?namespace=z":             {},
		"/v1/pods?namespace=y&name=a":      {"pod \"a\" not found in namespace \"y\"\n"},
		"/v1/pods?watch=perhaps":           {"watch is \"perhaps\", and has to be true or false\n"},
		"/v1/pods?watch=0&name=b-node-1":   {"Pod b-node-1"},
		"/v1/pods?namespace=y&name=node-1": {"pod \"node-1\" not found in namespace \"y\"\n"},
	} {
		if got := names(url); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

func TestAnEmptyListIsNotNull(t *testing.T) {
	s := start(t, 0)
	if _, body := s.get("/v1/pods"); !strings.Contains(body, `"items":[]`) || !strings.Contains(body, `"refused":[]`) {
		t.Errorf("got %s", body)
	}
}

// watch reads a watch, event by event.
func (s *station) watch(url string) func() api.Event {
	s.t.Helper()
	lines := json.NewDecoder(bufio.NewReader(s.open(url).Body))
	return func() api.Event {
		s.t.Helper()
		var e api.Event
		if err := lines.Decode(&e); err != nil {
			s.t.Fatalf("read an event: %v", err)
		}
		return e
	}
}

func TestWatch(t *testing.T) {
	s := start(t, 0)
	a := newPod("x", "a")
	s.pods.set(nil, a, newPod("y", "other"))
	next := s.watch("/v1/pods?watch=1&namespace=x")
	want := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if got := eventText(next()); got != text {
				t.Fatalf("got %q, want %q", got, text)
			}
		}
	}
	want("ADDED a", "SYNCED")

	changed := a.DeepCopy()
	changed.Status.Phase = v1.PodFailed
	s.pods.set(nil, changed)
	want("MODIFIED a")
	s.pods.set([]pod.Refusal{{Message: "no name"}}, changed, newPod("x", "b"))
	want("ADDED b", "REFUSED no name")
	s.pods.set(nil)
	for range 2 {
		if e := next(); e.Type != api.Deleted {
			t.Errorf("got %s, want DELETED", e.Type)
		}
	}
	want("RESOLVED no name")
}

func TestASlowWatcherBlocksNoOtherAndMissesNothing(t *testing.T) {
	// Given a watcher that does not read, of pods too large for a socket's buffer
	s := start(t, 0)
	a := newPod("x", "a")
	a.Annotations["big"] = strings.Repeat("x", 1<<20)
	s.pods.set(nil, a)
	next := s.watch("/v1/pods?watch=1")

	// When the pod changes a thousand times
	const changes = 1000
	for i := range changes {
		c := *a
		c.Generation = int64(i + 1)
		s.pods.set(nil, &c)
	}

	// Then the watcher receives the newest state, after few states before it
	events, last := 0, int64(0)
	for last < changes {
		e := next()
		if events++; e.Pod == nil {
			continue
		}
		if e.Pod.Generation < last {
			t.Fatalf("reported generation %d after %d", e.Pod.Generation, last)
		}
		last = e.Pod.Generation
	}
	if events > 50 {
		t.Errorf("%d events for %d changes, want them reported as few", events, changes)
	}
}

func TestLog(t *testing.T) {
	s := start(t, 0)
	waiting := newPod("y", "waits", "app")
	waiting.Status.ContainerStatuses[0].State = v1.ContainerState{
		Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
	}
	again := newPod("y", "again", "new")
	again.Status.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ContainerID: "containerd://old"}
	s.pods.set(nil, newPod("x", "web", "app", "side"), newPod("x", "lost", "gone"), newPod("x", "silent", "unwritten"), waiting, again)
	s.logs.write(t, "app", "one", "two", "three")
	s.logs.write(t, "side", "aside")
	s.logs.write(t, "new", "new life")
	s.logs.write(t, "old", "old life")
	cases := []struct {
		url  string
		code int
		want string
	}{
		{"/v1/pods/web/log", 200, "one\ntwo\nthree\n"},
		{"/v1/pods/web-node-1/log?tail=1", 200, "three\n"},
		{"/v1/namespaces/x/pods/web/log?container=side", 200, "aside\n"},
		{"/v1/pods/web/log?tail=1&timestamps=true", 200, "2026-01-02T03:04:02Z three\n"},
		{"/v1/pods/web/log?since=2026-01-02T03:04:01Z", 200, "two\nthree\n"},
		{"/v1/pods/web/log?since=1ns", 200, ""},
		{"/v1/pods/web/log?limitBytes=2", 200, "on"},
		{"/v1/pods/again/log", 200, "new life\n"},
		{"/v1/pods/again/log?previous=1", 200, "old life\n"},
		{"/v1/pods/again/log?id=containerd://old", 200, "old life\n"},
		{"/v1/pods/again/log?id=gone", 404, "is gone"},
		{"/v1/pods/web/log?previous=1", 404, "has no previous life"},
		{"/v1/namespaces/z/pods/web/log", 404, "pod \"web\" not found in namespace \"z\""},
		{"/v1/pods/web/log?container=nope", 404, "it has app, side"},
		{"/v1/pods/waits/log", 400, "container app of pod y/waits-node-1 is waiting to start: ErrImagePull: no such image"},
		{"/v1/pods/lost/log", 404, "is gone"},
		{"/v1/pods/silent/log?follow=1", 404, "is gone"},
		{"/v1/pods/web/log?tail=-5", 400, "tail is \"-5\", and has to be a number"},
		{"/v1/pods/web/log?tail=x&since=y", 400, "tail is \"x\""},
		{"/v1/pods/web/log?since=yesterday", 400, "or an age such as 5m"},
		{"/v1/pods/web/log?follow=maybe", 400, "follow is \"maybe\""},
	}
	for _, c := range cases {
		code, body := s.get(c.url)
		if code != c.code || code == 200 && body != c.want || !strings.Contains(body, c.want) {
			t.Errorf("%s: got %d %q, want %d %q", c.url, code, body, c.code, c.want)
		}
	}
}

func TestALogThatIsNoRegularFileIsNotServed(t *testing.T) {
	s := start(t, 0)
	s.pods.set(nil, newPod("x", "web", "link", "pipe"))
	if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(s.logs.folder, "link.log")), syscall.Mkfifo(filepath.Join(s.logs.folder, "pipe.log"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, container := range []string{"link", "pipe"} {
		code, body := s.get("/v1/pods/web/log?tail=5&follow=1&container=" + container)
		if code != http.StatusInternalServerError || !strings.Contains(body, "is not as the runtime made it") {
			t.Errorf("%s: got %d %q", container, code, body)
		}
	}
}

func TestLogSaysWhichContainerItIsOf(t *testing.T) {
	s := start(t, 0)
	s.pods.set(nil, newPod("x", "web", "app", "side"))
	s.logs.write(t, "app")
	r := s.open("/v1/pods/web/log")
	if got := r.Header.Get(api.HeaderContainer); got != "app" {
		t.Errorf("container: got %q", got)
	}
	if got := r.Header.Get(api.HeaderContainers); got != "app,side" {
		t.Errorf("containers: got %q", got)
	}
}

func TestFollowedLog(t *testing.T) {
	s := start(t, 0)
	s.pods.set(nil, newPod("x", "web", "app"))
	s.logs.write(t, "app")
	// Given a log that is silent: the answer begins all the same
	r := s.open("/v1/pods/web/log?follow=1")
	text := bufio.NewReader(r.Body)
	// When lines are added, they come; when the container has ended, it ends
	for _, want := range []string{"one", "two"} {
		s.logs.write(t, "app", want)
		if got, err := text.ReadString('\n'); got != want+"\n" {
			t.Fatalf("got %q (%v), want %q", got, err, want)
		}
	}
	close(s.logs.done)
	if rest, err := io.ReadAll(text); len(rest) > 0 || err != nil {
		t.Errorf("got %q (%v), want the end", rest, err)
	}
	if got := r.Trailer.Get(api.ErrorTrailer); got != "" {
		t.Errorf("got error %q, want none", got)
	}
}

func TestStopEndsStreams(t *testing.T) {
	s := start(t, 0)
	s.pods.set(nil, newPod("x", "web", "app"))
	s.logs.write(t, "app")
	log := s.open("/v1/pods/web/log?follow=1")
	watch := s.open("/v1/pods?watch=1")
	s.stop()
	if _, err := io.ReadAll(log.Body); err != nil {
		t.Errorf("log: got %v, want a proper end", err)
	}
	if got := log.Trailer.Get(api.ErrorTrailer); got != "berth is stopping" {
		t.Errorf("log: got error %q", got)
	}
	if _, err := io.ReadAll(watch.Body); err != nil {
		t.Errorf("watch: got %v, want a proper end", err)
	}
	if _, err := net.Dial("unix", s.path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestStreamsAreLimited(t *testing.T) {
	s := start(t, 1)
	first := s.open("/v1/pods?watch=1")
	if code, body := s.get("/v1/pods?watch=1"); code != 503 || !strings.Contains(body, "end one and try again") {
		t.Errorf("got %d %q, want a refusal", code, body)
	}
	if code, _ := s.get("/v1/pods"); code != 200 {
		t.Errorf("a list: got %d, want 200", code)
	}
	_ = first.Body.Close()
}

func TestServeEndsWithItsListener(t *testing.T) {
	s := start(t, 0)
	server, err := New(Config{Pods: s.pods, Logs: s.logs, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(socketPath(t), "")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := server.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that it is closed", err)
	}
}

// A pod of exactly the wanted name goes before one whose manifest has that name, also
// when it comes later.
func TestAWatchOfAName(t *testing.T) {
	s := start(t, 0)
	byManifest := newPod("x", "a")
	exact := newPod("x", "b")
	exact.Name = "a"
	s.pods.set(nil, byManifest, newPod("x", "other"))
	next := s.watch("/v1/pods?watch=1&name=a")
	want := func(kind api.EventType, p *v1.Pod) {
		t.Helper()
		if e := next(); e.Type != kind || p != nil && e.Pod.UID != p.UID {
			t.Fatalf("got %s %+v, want %s", e.Type, e.Pod, kind)
		}
	}
	want(api.Added, byManifest)
	want(api.Synced, nil)
	s.pods.set(nil, byManifest, newPod("x", "another"), exact)
	want(api.Deleted, byManifest)
	want(api.Added, exact)
	s.pods.set(nil, byManifest)
	want(api.Deleted, exact)
	want(api.Added, byManifest)
}
