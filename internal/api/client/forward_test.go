package client

import (
	"context"
	"testing"
)

// The connection breaks when the pod goes. A watcher of the pod may notice that before the forward
// reads the reason.
func TestAForwardThatIsLostNamesTheEndOfItsPod(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	end(lost("the pod web is gone"))
	p := running("web")
	if err := newWorld().serve(t).NodeAPI().whyLost(ctx, &p); err == nil || err.Error() != "lost connection to pod; the pod web is gone" {
		t.Errorf("got %v", err)
	}
}
