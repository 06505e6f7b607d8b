package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestTurnsAndRestartsAreSeen(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		var turns []string
		p.SyncStarted = func(ctx context.Context, _ *v1.Pod, phase Phase) (context.Context, func(error)) {
			return ctx, func(err error) { turns = append(turns, fmt.Sprint(phase, " ", err != nil)) }
		}
		restarts := 0
		p.Restarted = func(*v1.Pod) { restarts++ }
		web := named("1", pod.SourceAPI)
		h.fail["sync 1"] = 1

		// Given a pod whose first sync fails, and that comes again while it goes,
		p.Desire(web)
		synctest.Wait()
		h.hold["erase 1"] = make(chan struct{})
		p.Remove(web)
		synctest.Wait()
		p.Desire(web)
		h.unblock("erase 1")
		synctest.Wait()

		// then each turn is seen, and that it came again.
		want := []string{
			fmt.Sprint(Syncing, " true"), fmt.Sprint(Terminating, " false"), fmt.Sprint(Terminated, " false"), fmt.Sprint(Syncing, " false"),
		}
		if !slices.Equal(turns, want) || restarts != 1 {
			t.Errorf("got %q and %d restarts, want %q", turns, restarts, want)
		}
	})
}
