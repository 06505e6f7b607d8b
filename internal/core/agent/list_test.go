package agent_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/core/agent"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

func TestReadersMayComeBeforeTheLoopBegins(t *testing.T) {
	nothing := map[pod.UID]*pod.Observed{}
	a, err := agent.New(agent.Config{
		Node: func() admit.Node { return admit.Node{} },
		Log:  slog.New(slog.DiscardHandler), Desired: desired.New(), Statuses: status.NewStore(), Events: &fake.Events{},
		Upstream: &fake.Upstream{}, Housekeeping: time.Minute,
		InRuntime: func(context.Context) (map[pod.UID]*pod.Observed, error) { return nothing, nil },
		OnDisk:    func() (map[pod.UID]*pod.Observed, error) { return nothing, nil },
	})
	must(t, err)
	if pods, refused := a.List(); len(pods) != 0 || len(refused) != 0 {
		t.Errorf("got %v and %v, want nothing", pods, refused)
	}
}

// leaver is a pool with one worker, whose pod has left its source.
type leaver struct {
	agent.Workers
	lives map[pod.UID]worker.Life
}

func (l leaver) Lives() map[pod.UID]worker.Life { return l.lives }

func (l leaver) Life(uid pod.UID) (worker.Life, bool) {
	life, ok := l.lives[uid]
	return life, ok
}

func TestAPodIsShownUntilItIsErasedAndNeverWithoutItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a pod that ended, and is about to be erased
		nothing := map[pod.UID]*pod.Observed{}
		statuses := status.NewStore()
		a, err := agent.New(agent.Config{
			Node: func() admit.Node { return admit.Node{} },
			Log:  slog.New(slog.DiscardHandler), Desired: desired.New(), Statuses: statuses, Events: &fake.Events{},
			Upstream: &fake.Upstream{}, Housekeeping: time.Minute,
			InRuntime: func(context.Context) (map[pod.UID]*pod.Observed, error) { return nothing, nil },
			OnDisk:    func() (map[pod.UID]*pod.Observed, error) { return nothing, nil },
		})
		must(t, err)
		p := &v1.Pod{}
		p.UID, p.Name = "a", "web"
		pool := leaver{lives: map[pod.UID]worker.Life{"a": {Pod: p, Phase: worker.Terminated, Removed: true}}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			a.Run(ctx, pool, nil)
			close(ended)
		}()
		synctest.Wait()
		statuses.Set("a", v1.PodStatus{Phase: v1.PodFailed})
		if pods, _ := a.List(); len(pods) != 1 || pods[0].Status.Phase != v1.PodFailed || pods[0].DeletionTimestamp == nil {
			t.Errorf("before: %v", pods)
		}
		// when it is, and its worker has not gone yet, then it is not shown as one that has yet to start
		statuses.Forget("a")
		if pods, _ := a.List(); len(pods) != 0 {
			t.Errorf("after: %v", pods)
		}
		cancel()
		<-ended
	})
}
