package agent

import (
	"context"
	"time"

	"berth/internal/intake/merge"
	"berth/internal/lib/pod"
)

// intake merges the snapshots of the sources and sends the differences to the loop.
func (a *Agent) intake(ctx context.Context, snapshots <-chan pod.Snapshot) {
	merger, err := merge.New(merge.Incremental)
	if err != nil {
		panic("agent: " + err.Error()) // the mode is a constant
	}
	for {
		select {
		case s := <-snapshots:
			for _, u := range merger.Merge(s, time.Now()) {
				send(ctx, a.updates, u)
			}
		case <-ctx.Done():
			return
		}
	}
}
