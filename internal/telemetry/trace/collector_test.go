package trace

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/telemetry/trace/tracetest"
)

// sending returns a tracer that sends to a collector on loopback, and the log of it.
func sending(t *testing.T, perMillion int32, answer func(context.Context) error) (*Tracer, *tracetest.Collector, *bytes.Buffer) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	collector := tracetest.Serve(t, listener, answer)
	tr, err := New(t.Context(), Config{
		Endpoint: listener.Addr().String(), PerMillion: perMillion, NodeName: "box", Version: "v1", Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr, collector, &log
}

func span(tr *Tracer, name string) {
	_, end := tr.Begin(context.Background(), name)
	end(nil)
}

func TestSpansArriveAtACollector(t *testing.T) {
	t.Parallel()
	// given a sync whose first step fails
	tr, collector, _ := sending(t, 1_000_000, nil)
	ctx, end := tr.Begin(t.Context(), "syncPod", "k8s.pod.name", "web")
	_, endInner := tr.Within(ctx, "set up volumes")
	endInner(errors.New("no such secret"))
	end(nil)

	// when the tracer is stopped
	if err := tr.Stop(); err != nil {
		t.Fatal(err)
	}

	// then all of it is there
	got := collector.Spans()
	if len(got) != 2 || got[0].Name != "set up volumes" || got[1].Name != "syncPod" {
		t.Fatalf("got %+v", got)
	}
	inner, outer := got[0], got[1]
	if outer.Parent != "" || outer.ID == "" || inner.Parent != outer.ID {
		t.Errorf("%+v is no part of %+v", inner, outer)
	}
	if outer.Attributes["k8s.pod.name"] != "web" || inner.Error != "no such secret" || outer.Error != "" {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]string{"service.name": "berth", "service.version": "v1", "k8s.node.name": "box"} {
		if outer.Resource[name] != want {
			t.Errorf("%s is %q, want %q", name, outer.Resource[name], want)
		}
	}
}

func TestARatioOfNothingSendsNothing(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 1)
	tr, _, _ := sending(t, 0, func(context.Context) error {
		called <- struct{}{}
		return nil
	})

	for range 100 {
		span(tr, "syncPod")
	}
	if err := tr.Stop(); err != nil {
		t.Fatal(err)
	}

	if len(called) != 0 {
		t.Error("the collector was called")
	}
}

func TestACollectorThatHangsDoesNotBlock(t *testing.T) {
	t.Parallel()
	// given a collector that takes a request, and does not answer
	asked, release := make(chan struct{}, 1), make(chan struct{})
	tr, collector, _ := sending(t, 1_000_000, func(ctx context.Context) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	for range 600 { // more than one request
		span(tr, "first")
	}
	<-asked

	// when there are many more spans than are kept
	const many = 50_000
	began := time.Now()
	for range many {
		span(tr, "later")
	}
	took := time.Since(began)

	// then no caller has waited, and few spans were kept
	if took > 5*time.Second {
		t.Errorf("%d spans took %s", many, took)
	}
	close(release)
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
	if kept := len(collector.Spans()); kept == 0 || kept > 4096 {
		t.Errorf("%d spans were kept", kept)
	}
}

func TestStopDoesNotWaitForACollectorThatHangs(t *testing.T) {
	t.Parallel()
	tr, _, _ := sending(t, 1_000_000, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	span(tr, "syncPod")

	began := time.Now()
	err := tr.Stop()

	if took := time.Since(began); took > 2*stopTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %s: %v", took, err)
	}
}

func TestACollectorThatRefusesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	// given a collector that refuses what it is sent
	var takes atomic.Bool
	tr, collector, log := sending(t, 1_000_000, func(context.Context) error {
		if takes.Load() {
			return nil
		}
		return status.Error(codes.PermissionDenied, "not you")
	})
	send := func() {
		span(tr, "syncPod")
		if err := tr.provider.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}

	// when it is sent more, then it is said once
	send()
	send()
	if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "not you") {
		t.Errorf("the log says %q", said)
	}

	// when it takes them, then that is said, and only what was refused is lost
	takes.Store(true)
	send()
	send()
	if said := log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "level=INFO") {
		t.Errorf("the log says %q", said)
	}
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
	if got := len(collector.Spans()); got != 2 {
		t.Errorf("%d spans arrived", got)
	}
}
