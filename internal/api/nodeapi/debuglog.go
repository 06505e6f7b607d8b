package nodeapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// withDebugLog makes the streaming libraries log their errors at level Debug. They treat a client that
// closes its stream as an error, but most streams end that way. Errors before a stream is open are in
// the answer.
func (a *API) withDebugLog(r *http.Request) *http.Request {
	return r.WithContext(klog.NewContext(r.Context(), logr.FromSlogHandler(debugHandler{a.Log.Handler()})))
}

// debugHandler lowers the level of all records to Debug.
type debugHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (l debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements slog.Handler.
func (l debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug)
	if !l.Handler.Enabled(ctx, r.Level) { // logr does not check the level of errors
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{l.Handler.WithGroup(name)}
}
