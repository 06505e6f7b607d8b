package trace

import (
	"context"
	"log/slog"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// lossLogger tells when spans begin to be lost, and when they are taken again: the
// library would complain of each batch, to a log that the whole process shares. It is
// called by one goroutine at a time.
type lossLogger struct {
	sdk.SpanExporter
	endpoint string
	log      *slog.Logger
	losing   bool
}

// ExportSpans never fails, since nobody could do anything about it.
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
