package trace

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"
)

func tracer(t *testing.T, perMillion int32) (*Tracer, func() tracetest.SpanStubs) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	tr := newTracer(kept, Config{PerMillion: perMillion, NodeName: "box"})
	t.Cleanup(func() { _ = tr.Stop() })
	return tr, func() tracetest.SpanStubs {
		if err := tr.provider.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		return kept.GetSpans()
	}
}

func TestSpansOfASync(t *testing.T) {
	tr, spans := tracer(t, 1_000_000)

	ctx, end := tr.Begin(t.Context(), "syncPod", "k8s.pod.name", "web")
	inner, endInner := tr.Within(ctx, "set up volumes")
	outgoing, _ := metadata.FromOutgoingContext(tr.Outgoing(inner))
	endInner(errors.New("no such secret"))
	end(context.Canceled) // a pod that is to go is no failure

	got := spans()
	if len(got) != 2 || got[0].Name != "set up volumes" || got[0].Parent.SpanID() != got[1].SpanContext.SpanID() {
		t.Fatalf("got %+v", got)
	}
	if got[0].Status.Description != "no such secret" || got[1].Status.Description != "" {
		t.Errorf("they ended with %+v and %+v", got[0].Status, got[1].Status)
	}
	if got[1].Attributes[0].Value.AsString() != "web" {
		t.Errorf("got %v", got[1].Attributes)
	}
	if parent := outgoing.Get("traceparent"); len(parent) != 1 || !strings.Contains(parent[0], got[0].SpanContext.SpanID().String()) {
		t.Errorf("the runtime got %v", outgoing)
	}
}

func TestWhatBelongsToNoSyncIsNotTraced(t *testing.T) {
	tr, spans := tracer(t, 1_000_000)

	ctx, end := tr.Within(t.Context(), "runtime.version")
	end(nil)

	if _, propagated := metadata.FromOutgoingContext(tr.Outgoing(ctx)); propagated || len(spans()) != 0 {
		t.Error("it was traced")
	}
}

func TestARatioOfNothingTracesNothing(t *testing.T) {
	tr, spans := tracer(t, 0)

	_, end := tr.Begin(t.Context(), "syncPod")
	end(nil)

	if len(spans()) != 0 {
		t.Error("it was traced")
	}
}

func TestNoTracerCostsNothing(t *testing.T) {
	var none *Tracer
	ctx := t.Context()

	allocations := testing.AllocsPerRun(100, func() {
		inner, end := none.Begin(ctx, "syncPod")
		_, endInner := none.Within(inner, "step")
		endInner(nil)
		end(nil)
		if none.Outgoing(inner) != ctx {
			t.Error("the context is another one")
		}
	})

	if allocations != 0 || none.Stop() != nil {
		t.Errorf("there were %v allocations", allocations)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(t.Context(), Config{PerMillion: 2_000_000, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "samplingRatePerMillion") {
		t.Errorf("got %v", err)
	}
	if _, err := New(t.Context(), Config{}); err == nil {
		t.Error("it does without a log")
	}
	// A collector that is not there is no reason not to start.
	tr, err := New(t.Context(), Config{Endpoint: "127.0.0.1:1", PerMillion: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
}
