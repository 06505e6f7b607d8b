package teardown

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/core/worker"
	"berth/internal/lib/pod"
)

// testNode is a node whose pods take a second to end.
type testNode struct {
	pods    map[pod.UID]*pod.Observed
	ends    map[pod.UID]time.Time // when a pod that is being stopped ends
	stuck   map[pod.UID]bool      // pods that never end
	stopped []string              // in this order, with the grace period if one was given
	grace   map[pod.UID]bool      // pods that got a grace period
}

func newTestNode(pods ...pod.UID) *testNode {
	n := &testNode{pods: map[pod.UID]*pod.Observed{}, ends: map[pod.UID]time.Time{}, stuck: map[pod.UID]bool{}, grace: map[pod.UID]bool{}}
	for _, uid := range pods {
		n.pods[uid] = &pod.Observed{UID: uid}
	}
	return n
}

func (n *testNode) Orphan(o pod.Observed) {
	if _, stopping := n.ends[o.UID]; !stopping {
		n.stopped = append(n.stopped, string(o.UID))
		n.ends[o.UID] = time.Now().Add(time.Second)
	}
}

func (n *testNode) End(uid pod.UID, _ *int64, _ pod.Cause) { n.grace[uid] = true }

func (n *testNode) Lives() map[pod.UID]worker.Life {
	out := map[pod.UID]worker.Life{}
	for uid := range n.list() {
		if _, stopping := n.ends[uid]; stopping {
			out[uid] = worker.Life{}
		}
	}
	return out
}

// list returns the pods that have not ended.
func (n *testNode) list() map[pod.UID]*pod.Observed {
	maps.DeleteFunc(n.pods, func(uid pod.UID, _ *pod.Observed) bool {
		end, stopping := n.ends[uid]
		return stopping && !n.stuck[uid] && !time.Now().Before(end)
	})
	return maps.Clone(n.pods)
}

// tearDown tears the node down. The pods of users have volumes of drivers.
func (n *testNode) tearDown(ctx context.Context, grace int64, users ...pod.UID) error {
	return Run(ctx, Config{
		Workers:   n,
		InRuntime: func(context.Context) (map[pod.UID]*pod.Observed, error) { return n.list(), nil },
		OnDisk:    func() (map[pod.UID]*pod.Observed, error) { return map[pod.UID]*pod.Observed{}, nil },
		DriverUsers: func() (map[pod.UID]bool, error) {
			out := map[pod.UID]bool{}
			for _, uid := range users {
				out[uid] = true
			}
			return out, nil
		},
		NoPods: func() {
			for _, uid := range slices.Sorted(maps.Keys(n.list())) {
				n.Orphan(*n.pods[uid])
			}
		},
		Log: slog.New(slog.DiscardHandler),
	}, grace)
}

func TestPodsWithVolumesOfDriversEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTestNode("driver", "user", "web")
		if err := n.tearDown(t.Context(), OwnGrace, "user"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(n.stopped, " "); got != "user driver web" || len(n.pods) > 0 || len(n.grace) > 0 {
			t.Errorf("stopped %s, left %v, with a grace period %v", got, n.pods, n.grace)
		}
	})
}

func TestADriverThatHangsHoldsUpNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTestNode("driver", "user")
		n.stuck["user"] = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := n.tearDown(ctx, 0, "user")
		if err == nil || !strings.Contains(err.Error(), "1 pods are still there") {
			t.Errorf("got %v", err)
		}
		if n.pods["driver"] != nil || !n.grace["driver"] || !n.grace["user"] {
			t.Errorf("left %v, with a grace period %v", n.pods, n.grace)
		}
	})
}
