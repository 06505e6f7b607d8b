package nodeapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// quietly gives the libraries that carry a stream a log for their errors. Somebody who
// goes in the middle of a stream is an error to them, and the usual end to us: it is
// told to who wants to know everything. What goes wrong before a stream is there is
// answered, and so not lost.
func (a *API) quietly(r *http.Request) *http.Request {
	return r.WithContext(klog.NewContext(r.Context(), logr.FromSlogHandler(lowered{a.Log.Handler()})))
}

// lowered makes all that is logged a detail.
type lowered struct{ slog.Handler }

// Enabled implements slog.Handler.
func (l lowered) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements slog.Handler.
func (l lowered) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug)
	if !l.Handler.Enabled(ctx, r.Level) { // logr does not ask before it tells of an error
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l lowered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lowered{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l lowered) WithGroup(name string) slog.Handler { return lowered{l.Handler.WithGroup(name)} }
