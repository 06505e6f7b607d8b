package node

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A server that starts is away first, and then not ready yet: two causes within moments.
func TestTheEndOfAnOutageIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lineRecorder{}
		o := outage{log: slog.New(slog.NewTextHandler(log, nil)), what: "try"}
		for range 3 {
			o.failed(t.Context(), errors.New("connection refused"))
			o.failed(t.Context(), apierrors.NewServiceUnavailable("starting"))
			if !o.over() || o.over() {
				t.Error("an outage is over once")
			}
		}
		if lines := log.take(); len(lines) != 2 {
			t.Errorf("logged %q", lines)
		}
	})
}
