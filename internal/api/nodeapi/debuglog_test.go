package nodeapi

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

func TestDetailsOfStreamsAreLoggedAtDebugLevel(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	quiet := logr.FromSlogHandler(debugHandler{slog.NewTextHandler(&log, nil)})
	quiet.Error(io.EOF, "a stream broke off")
	quiet.WithName("x").WithValues("a", 1).Info("something else")
	if got := log.String(); got != "" {
		t.Errorf("it says %s", got)
	}
}
