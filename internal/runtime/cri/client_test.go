package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	for name, c := range map[string]Config{
		"no timeout":           {RuntimeEndpoint: "unix:///run/s"},
		"negative timeout":     {RuntimeEndpoint: "unix:///run/s", Timeout: -1},
		"no endpoint":          {Timeout: time.Second},
		"no scheme":            {RuntimeEndpoint: "/run/s", Timeout: time.Second},
		"no path":              {RuntimeEndpoint: "unix:///", Timeout: time.Second},
		"a relative path":      {RuntimeEndpoint: "unix://run/s", Timeout: time.Second},
		"another scheme":       {RuntimeEndpoint: "tcp://localhost:1", Timeout: time.Second},
		"a bad image endpoint": {RuntimeEndpoint: "unix:///run/s", ImageEndpoint: "/run/s", Timeout: time.Second},
	} {
		if client, err := New(c); err == nil {
			t.Errorf("%s was accepted", name)
			_ = client.Close()
		}
	}
}

func TestImagesMayBeAnotherServersBusiness(t *testing.T) {
	containers, images := &server{}, &server{images: map[string]string{"localhost/app:1": "sha256:1"}}
	at, imagesAt := socket(t), socket(t)
	containers.serve(t, at)
	images.serve(t, imagesAt)
	c, err := New(Config{RuntimeEndpoint: "unix://" + at, ImageEndpoint: "unix://" + imagesAt, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if ref, err := c.ImageRef(t.Context(), "localhost/app:1"); ref != "sha256:1" || err != nil {
		t.Errorf("got %q, %v", ref, err)
	}
	if ref, err := c.ImageRef(t.Context(), "localhost/none:1"); ref != "" || err != nil {
		t.Errorf("one that is not there: got %q, %v", ref, err)
	}
	if v, err := c.Version(t.Context()); v != (Version{"test", "1"}) || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestMakingAndStartingReturnsIDs(t *testing.T) {
	s := &server{}
	c := clientOf(t, s)
	if id, err := c.RunSandbox(t.Context(), &runtimeapi.PodSandboxConfig{}, "gvisor"); id != "new-sandbox" || err != nil {
		t.Errorf("sandbox: got %q, %v", id, err)
	}
	if handler := request[*runtimeapi.RunPodSandboxRequest](t, s, "RunPodSandbox").RuntimeHandler; handler != "gvisor" {
		t.Errorf("the sandbox is run by %q", handler)
	}
	if id, err := c.CreateContainer(t.Context(), "s", nil, nil); id != "new-container" || err != nil {
		t.Errorf("container: got %q, %v", id, err)
	}
	if err := errors.Join(c.StartContainer(t.Context(), "c"), pullImage(t.Context(), c, "localhost/app:1")); err != nil {
		t.Error(err)
	}
}

// calls are all calls whose errors name their argument.
func calls(c *Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Version":          func(ctx context.Context) error { _, err := c.Version(ctx); return err },
		"Status":           func(ctx context.Context) error { return c.Ready(ctx) },
		"ListPodSandbox":   func(ctx context.Context) error { _, err := c.List(ctx); return err },
		"RunPodSandbox":    func(ctx context.Context) error { _, err := c.RunSandbox(ctx, nil, ""); return err },
		"StopPodSandbox":   func(ctx context.Context) error { return c.StopSandbox(ctx, "the-id") },
		"RemovePodSandbox": func(ctx context.Context) error { return c.RemoveSandbox(ctx, "the-id") },
		"CreateContainer":  func(ctx context.Context) error { _, err := c.CreateContainer(ctx, "the-id", nil, nil); return err },
		"StartContainer":   func(ctx context.Context) error { return c.StartContainer(ctx, "the-id") },
		"StopContainer":    func(ctx context.Context) error { return c.StopContainer(ctx, "the-id", 0) },
		"RemoveContainer":  func(ctx context.Context) error { return c.RemoveContainer(ctx, "the-id") },
		"ImageStatus":      func(ctx context.Context) error { _, err := c.ImageRef(ctx, "image"); return err },
		"PullImage":        func(ctx context.Context) error { return pullImage(ctx, c, "image") },
		"ListImages":       func(ctx context.Context) error { _, err := c.Images(ctx); return err },
		"RemoveImage":      func(ctx context.Context) error { return c.RemoveImage(ctx, "image") },
		"ImageFsInfo":      func(ctx context.Context) error { _, err := c.Filesystems(ctx); return err },
		"ContainerStats":   func(ctx context.Context) error { _, err := c.ContainerStats(ctx, "the-id"); return err },
		"Exec":             func(ctx context.Context) error { _, err := c.ExecURL(ctx, "the-id", nil, Streams{}); return err },
		"Attach":           func(ctx context.Context) error { _, err := c.AttachURL(ctx, "the-id", Streams{}); return err },
		"PortForward":      func(ctx context.Context) error { _, err := c.PortForwardURL(ctx, "the-id"); return err },

		"ListPodSandboxStats":      func(ctx context.Context) error { _, err := c.Stats(ctx); return err },
		"ReopenContainerLog":       func(ctx context.Context) error { return c.ReopenLog(ctx, "the-id") },
		"UpdateContainerResources": func(ctx context.Context) error { return c.UpdateContainer(ctx, "the-id", nil) },
		"CheckpointContainer":      func(ctx context.Context) error { return c.Checkpoint(ctx, "the-id", "/a.tar", 0) },
	}
}

func TestAFailureKeepsItsCauseAndItsWords(t *testing.T) {
	s := &server{fails: map[string]error{}}
	for call, do := range calls(clientOf(t, s)) {
		s.fails[call] = status.Error(codes.Internal, "disk full")
		err := do(t.Context())
		if err == nil {
			t.Errorf("%s did not fail", call)
			continue
		}
		if Reason(err) != "disk full" || strings.HasPrefix(err.Error(), "rpc error") {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got := Reason(fmt.Errorf("make: %w", errors.New("no room"))); got != "make: no room" {
		t.Errorf("an error of our own: %q", got)
	}
}

func TestWhatIsGoneIsStoppedAndRemoved(t *testing.T) {
	s := &server{fails: map[string]error{}}
	all := calls(clientOf(t, s))
	for _, call := range []string{"StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer", "RemoveImage"} {
		s.fails[call] = notFound("the-id")
		if err := all[call](t.Context()); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	s.fails["StartContainer"] = notFound("the-id")
	if err := all["StartContainer"](t.Context()); !IsNotFound(err) {
		t.Errorf("what is gone can't be started: %v", err)
	}
}

func TestAGracePeriodIsRoundedUpToSeconds(t *testing.T) {
	s := &server{}
	c := clientOf(t, s)
	for grace, want := range map[time.Duration]int64{0: 0, time.Millisecond: 1, time.Second: 1, 1500 * time.Millisecond: 2} {
		if err := c.StopContainer(t.Context(), "c", grace); err != nil {
			t.Fatal(err)
		}
		if got := request[*runtimeapi.StopContainerRequest](t, s, "StopContainer").Timeout; got != want {
			t.Errorf("%s: got %d s, want %d s", grace, got, want)
		}
	}
}

func TestARuntimeThatHangsIsNotWaitedForForLong(t *testing.T) {
	s := &server{hangs: true}
	at := socket(t)
	s.serve(t, at)
	all := calls(connect(t, at, 20*time.Millisecond))
	for _, call := range []string{"Version", "Status", "ListPodSandbox", "StopContainer", "RemoveContainer", "ImageStatus"} {
		began := time.Now()
		err := all[call](t.Context())
		if !errors.Is(err, pod.ErrNoAnswer) || code(err) != codes.DeadlineExceeded || time.Since(began) > 5*time.Second {
			t.Errorf("%s: got %v after %s", call, err, time.Since(began))
		}
	}
}

func TestEveryCallButAPullHasADeadline(t *testing.T) {
	s := &server{}
	for call, do := range calls(clientOf(t, s)) {
		_ = do(t.Context()) // most of these fail, which does not matter
		s.mu.Lock()
		timeout, bounded := s.timeouts[call]
		s.mu.Unlock()
		if call == "PullImage" {
			if bounded {
				t.Error("a large image takes its time")
			}
		} else if timeout <= 0 || timeout > startTimeout {
			t.Errorf("%s may take %s", call, timeout)
		}
	}
}

// The calls that may take minutes end at once with the context of who asked.
func TestEveryCallEndsWithItsContext(t *testing.T) {
	s := &server{hangs: true}
	for call, do := range calls(clientOf(t, s)) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if err := do(ctx); err == nil {
			t.Errorf("%s did not fail", call)
		}
		cancel()
	}
}

func TestTheClientComesBackWithTheRuntime(t *testing.T) {
	at := socket(t)
	stop := (&server{}).serve(t, at)
	c := connect(t, at, 10*time.Second)
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := c.Version(t.Context()); code(err) != codes.Unavailable {
		t.Fatalf("nobody is there: %v", err)
	}
	(&server{}).serve(t, at)
	awaitAnswer(t, c)
}

// awaitAnswer asks until the runtime is connected.
func awaitAnswer(t *testing.T, c *Client) {
	t.Helper()
	began := time.Now()
	for {
		_, err := c.Version(t.Context())
		if err == nil {
			return
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("still not connected: %v", err)
		}
	}
}

func TestABrokenConnectionIsReportedAtOnce(t *testing.T) {
	at := socket(t)
	stop := (&server{}).serve(t, at)
	c := connect(t, at, 10*time.Second)
	awaitAnswer(t, c)
	for s := c.conns[0].GetState(); s != connectivity.Ready; s = c.conns[0].GetState() { // it answers a moment before
		c.conns[0].WaitForStateChange(t.Context(), s)
	}
	changes := make(chan struct{}, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Changes(ctx, func() { changes <- struct{}{} })
	}()
	<-changes // that it is looked at

	stop()
	<-changes
	for range 20 { // attempts to connect are no changes
		if _, err := c.Version(t.Context()); err == nil {
			t.Error("it answers")
		}
	}
	(&server{}).serve(t, at)
	awaitAnswer(t, c)
	<-changes
	cancel()
	<-ended
	if len(changes) > 0 {
		t.Errorf("it was reported %d times too often", len(changes))
	}
}
