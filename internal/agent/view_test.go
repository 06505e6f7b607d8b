package agent_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"berth/internal/agent"
	"berth/internal/desired"
	"berth/internal/fake"
	"berth/internal/pod"
	"berth/internal/status"
)

func TestReadersMayComeBeforeTheLoopBegins(t *testing.T) {
	nothing := map[pod.UID]*pod.Observed{}
	a, err := agent.New(agent.Config{
		Log: slog.New(slog.DiscardHandler), Desired: desired.New(), Statuses: status.NewStore(), Events: &fake.Events{},
		Publish: (&fake.Upstream{}).Publish, Reassert: (&fake.Upstream{}).Publish, Housekeeping: time.Minute,
		InRuntime: func(context.Context) (map[pod.UID]*pod.Observed, error) { return nothing, nil },
		OnDisk:    func() (map[pod.UID]*pod.Observed, error) { return nothing, nil },
	})
	must(t, err)
	if pods, refused := a.List(); len(pods) != 0 || len(refused) != 0 {
		t.Errorf("got %v and %v, want nothing", pods, refused)
	}
}
