package features

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/host/selinux"
	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// testRuntime counts the questions about its features.
type testRuntime struct{ asked int }

func (r *testRuntime) Version(context.Context) (cri.Version, error) {
	r.asked++
	return cri.Version{Name: "containerd", Version: "2"}, nil
}

func (r *testRuntime) Info(context.Context) (cri.Info, error) {
	return cri.Info{SupplementalGroups: true, Handlers: []cri.Handler{{Name: "runc"}}}, nil
}

func (r *testRuntime) Labels(context.Context) (bool, error) { return false, nil }

func (r *testRuntime) List(context.Context) (map[pod.UID]*pod.Observed, error) {
	return map[pod.UID]*pod.Observed{"a": {}}, nil
}

func TestPodsAreListedOnceTheFeaturesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a runtime that is not up
		r, up := &testRuntime{}, make(chan struct{})
		f := New(r, up, slog.New(slog.DiscardHandler))
		if err := f.Await(t.Context()); err == nil || !strings.Contains(err.Error(), "it has not come up since the agent started") {
			t.Errorf("got %v", err)
		}
		fails := errors.New("not now")
		list := f.List(func(context.Context) error { return fails })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := list(ended); !errors.Is(err, context.Canceled) || r.asked != 0 {
			t.Errorf("it was asked before it came up: %v", err)
		}
		// when it comes up, then the features are known once all is settled, and are not read again
		close(up)
		if _, err := list(t.Context()); !errors.Is(err, fails) || f.RuntimeName() != "" {
			t.Errorf("got %q, %v", f.RuntimeName(), err)
		}
		fails = nil
		for range 2 {
			if pods, err := list(t.Context()); err != nil || len(pods) != 1 {
				t.Errorf("got %v, %v", pods, err)
			}
		}
		if err := f.Await(t.Context()); err != nil || r.asked != 2 || f.RuntimeName() != "containerd" || !f.StrictGroups() || len(f.Handlers()) != 1 {
			t.Errorf("after %d questions: %+v, %v", r.asked, f, err)
		}
	})
}

func TestOnlyARuntimeThatLabelsRefusesLabels(t *testing.T) {
	// given a label that no policy knows
	lost := selinux.Label{Type: "lost_t"}
	f := New(&testRuntime{}, nil, slog.New(slog.DiscardHandler))
	if err := f.CheckLabel(lost); err != nil {
		t.Errorf("where containers get no labels: %v", err)
	}
	f.labels = true
	if err := f.CheckLabel(lost); err == nil {
		t.Error("where containers get labels, it is not refused")
	}
}
