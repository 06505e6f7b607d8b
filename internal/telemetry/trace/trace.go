// Package trace sends OpenTelemetry spans of the steps of a pod's sync to a collector.
//
// Without a configuration the Tracer is nil, and all of its methods do nothing: no
// span is made, and nothing is sent. Spans are sent in the background and dropped
// when the collector can't keep up: no pod ever waits for one.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// Config says where spans go, as KubeletConfiguration's tracing does.
type Config struct {
	Endpoint          string // host:port of a collector that speaks OTLP over gRPC; "" is localhost:4317
	PerMillion        int32  // how many of a million syncs are traced; 0: none begun here
	NodeName, Version string
	Log               *slog.Logger // logs when spans are lost
}

const defaultEndpoint = "localhost:4317"

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a tracer that sends to the endpoint. It does not connect yet, and
// goes on trying when it can't.
func New(ctx context.Context, c Config) (*Tracer, error) {
	if c.PerMillion < 0 || c.PerMillion > 1_000_000 {
		return nil, fmt.Errorf("tracing: samplingRatePerMillion is %d, and has to be from 0 to 1000000", c.PerMillion)
	}
	if c.Log == nil {
		return nil, errors.New("tracing: a log is required")
	}
	if c.Endpoint == "" {
		c.Endpoint = defaultEndpoint
	}
	// The kubelet's word for the endpoint has no scheme, and no TLS: it is meant for a
	// collector on this machine.
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(c.Endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, fmt.Errorf("tracing: reach the collector at %s: %w", c.Endpoint, err)
	}
	return newTracer(&lossLogger{SpanExporter: exporter, endpoint: c.Endpoint, log: c.Log}, c), nil
}

func newTracer(exporter sdk.SpanExporter, c Config) *Tracer {
	// The names are those that OpenTelemetry agreed on.
	about := resource.NewSchemaless(
		attribute.String("service.name", "berth"), attribute.String("service.version", c.Version), attribute.String("k8s.node.name", c.NodeName),
	)
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter), sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(float64(c.PerMillion)/1_000_000))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("berth")}
}

// stopTimeout is how long the last spans may take to be sent.
const stopTimeout = 2 * time.Second

// Stop sends the spans that are left.
func (t *Tracer) Stop() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

func nothing(error) {}

// Begin begins a span. The function that it returns ends the span. The pairs are names and values
// of attributes.
func (t *Tracer) Begin(ctx context.Context, name string, pairs ...string) (context.Context, func(error)) {
	if t == nil {
		return ctx, nothing
	}
	ctx, span := t.tracer.Start(ctx, name)
	if !span.IsRecording() {
		return ctx, nothing
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		span.SetAttributes(attribute.String(pairs[i], pairs[i+1]))
	}
	return ctx, func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Within begins a span only if it is part of another one, so that calls which
// belong to no sync make no traces of their own.
func (t *Tracer) Within(ctx context.Context, name string, pairs ...string) (context.Context, func(error)) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nothing
	}
	return t.Begin(ctx, name, pairs...)
}

// Outgoing lets a gRPC server that traces, too, go on with our span.
func (t *Tracer) Outgoing(ctx context.Context) context.Context {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx
}
