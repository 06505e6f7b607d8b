package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/core/admit"
	"berth/internal/core/agent"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// stuckWorkers hang when a pod is enqueued.
type stuckWorkers struct {
	agent.Workers
	release <-chan struct{}
}

func (w stuckWorkers) Enqueue(pod.UID)              { <-w.release }
func (stuckWorkers) Lives() map[pod.UID]worker.Life { return nil }

func TestTheLoopIsAliveWhileItGoesRound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a loop that has not begun
		nothing := map[pod.UID]*pod.Observed{}
		loop, err := agent.New(agent.Config{
			Node: func() admit.Node { return admit.Node{} }, Log: slog.New(slog.DiscardHandler), Desired: desired.New(), Statuses: status.NewStore(),
			Events: &fake.Events{}, Upstream: &fake.Upstream{}, Housekeeping: time.Hour,
			InRuntime: func(context.Context) (map[pod.UID]*pod.Observed, error) { return nothing, nil },
			OnDisk:    func() (map[pod.UID]*pod.Observed, error) { return nothing, nil },
		})
		must(t, err)
		alive := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return loop.Alive(ctx)
		}
		notAlive := func(when string) {
			t.Helper()
			if err := alive(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the sync loop does not answer") {
				t.Errorf("%s: got %v", when, err)
			}
		}
		notAlive("before it begins")
		ctx, cancel := context.WithCancel(t.Context())
		release, ended := make(chan struct{}), make(chan struct{})
		go func() {
			loop.Run(ctx, stuckWorkers{release: release}, nil)
			close(ended)
		}()
		for range 3 {
			if err := alive(); err != nil {
				t.Errorf("while it goes round: %v", err)
			}
		}
		// when it is stuck, then it says so, until it goes on
		loop.EnqueueAt("a", time.Now())
		synctest.Wait()
		notAlive("while it is stuck")
		close(release)
		if err := alive(); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
		cancel()
		<-ended
		notAlive("after its end")
	})
}
