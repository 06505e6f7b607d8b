package trace

import (
	"context"
	"log/slog"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// lossLogger is an exporter that logs when spans begin to be lost, and when the collector takes
// them again: the library would log each batch, to a global logger. It is called by one goroutine
// at a time.
type lossLogger struct {
	sdk.SpanExporter
	endpoint string
	log      *slog.Logger
	losing   bool
}

// ExportSpans logs an error and never returns one: the library would log it again.
func (t *lossLogger) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !t.losing:
		t.log.Warn("the collector does not take traces; they are lost until it does", "endpoint", t.endpoint, "err", err)
	case err == nil && t.losing:
		t.log.Info("the collector takes traces again", "endpoint", t.endpoint)
	}
	t.losing = err != nil
	return nil
}
