package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"berth/internal/cli/printers"
)

// klogHandler prints errors that libraries log through klog in the form of berth's own: one line, without
// attributes.
type klogHandler struct{ stderr io.Writer }

// Enabled implements slog.Handler.
func (klogHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle implements slog.Handler.
func (c klogHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			text = a.Value.String()
		}
		return true
	})
	_, err := fmt.Fprintln(c.stderr, "error:", printers.OneLine(text))
	return err
}

// WithAttrs implements slog.Handler.
func (c klogHandler) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements slog.Handler.
func (c klogHandler) WithGroup(string) slog.Handler { return c }
