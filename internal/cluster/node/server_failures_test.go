package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestADeletedNodeIsRegisteredAgain(t *testing.T) {
	for name, notice := range map[string]func(*bench){
		"seen by a watch":         func(b *bench) { b.observeDeletion("uid-1") },
		"as its lease went too":   func(b *bench) { b.removeLease() },
		"by the next of its news": func(b *bench) { b.SetPressure(Pressure{Disk: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startReady(t, newCluster(t))
				after(time.Minute)
				b.removeNode()
				notice(b)
				after(11 * time.Second)
				if n := b.shown(); n.UID != "uid-2" || n.Labels["shelf"] != "3" || b.ready() != v1.ConditionTrue || b.Node().UID != "uid-2" {
					t.Errorf("node %+v", n)
				}
				if owner := b.lease().OwnerReferences[0]; owner.UID != "uid-2" {
					t.Errorf("the lease belongs to %v", owner)
				}
			})
		})
	}
}

func TestANodeThatWasCreatedAgainIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		b.put(func(n *v1.Node) { n.UID, n.Status, n.Labels = "other", v1.NodeStatus{}, map[string]string{"team": "x"} })
		after(6 * time.Minute)
		n := b.shown()
		if n.UID != "other" || n.Labels["team"] != "x" || n.Labels[v1.LabelHostname] != "box" || b.ready() != v1.ConditionTrue {
			t.Errorf("node %+v", n)
		}
	})
}

func TestAServerThatFallsSilentIsCalledAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		b.fails(context.DeadlineExceeded)
		after(11 * time.Second) // the next renewal
		if b.lost == 0 {
			t.Error("the connection was not blamed")
		}
	})
}

func TestAServerThatIsAwayForFiveMinutes(t *testing.T) {
	for name, fault := range map[string]error{
		"refused":  errors.New("connection refused"),
		"too busy": apierrors.NewTooManyRequests("later", 1),
		"broken":   apierrors.NewInternalError(errors.New("no etcd")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startReady(t, newCluster(t))
				b.fails(fault)
				after(time.Minute)
				b.SetNetwork(errors.New("no plugin"))
				after(4 * time.Minute)
				if lines := b.log.take(); len(lines) != 2 {
					t.Errorf("%d lines: %q", len(lines), lines)
				}
				if b.lost < 3 {
					t.Errorf("the connection was blamed %d times", b.lost)
				}
				// Meanwhile the cluster gave it up.
				b.put(func(n *v1.Node) { find(n.Status.Conditions, v1.NodeReady).Status = v1.ConditionUnknown })
				b.SetNetwork(nil)
				b.take()
				b.fails(nil)
				after(5 * time.Second)
				if b.ready() != v1.ConditionTrue {
					t.Error("it is not ready 5 s after the server came back")
				}
				if age := time.Since(b.lease().Spec.RenewTime.Time); age > 5*time.Second {
					t.Errorf("the lease was renewed %v ago", age)
				}
				if calls := b.take(); len(calls) > 6 {
					t.Errorf("calls %q", calls)
				}
				if lines := b.log.take(); len(lines) != 2 {
					t.Errorf("%d lines at the end: %q", len(lines), lines)
				}
			})
		})
	}
}

func TestAShortOutageThatOnlyTheLeaseSawIsLookedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		b.fails(errors.New("connection refused"))
		after(time.Minute)
		b.put(func(n *v1.Node) { find(n.Status.Conditions, v1.NodeReady).Status = v1.ConditionUnknown })
		b.fails(nil)
		after(5 * time.Second)
		c := find(b.shown().Status.Conditions, v1.NodeReady)
		if c.Status != v1.ConditionTrue || time.Since(c.LastTransitionTime.Time) > 6*time.Second {
			t.Errorf("ready: %v", c)
		}
		if events := b.events.take(); !slices.Equal(events, []string{"Normal NodeReady"}) {
			t.Errorf("events %q", events)
		}
	})
}

func TestAServerThatIsAwayAtStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.fails(errors.New("connection refused"))
		b := start(t, c, nil)
		b.SetRuntime(nil)
		b.SetNetwork(nil)
		after(5 * time.Minute)
		if isKnown(b.Reporter) || len(b.log.take()) != 1 {
			t.Fatal("it should wait, and say so once")
		}
		b.fails(nil)
		after(5 * time.Second)
		if !isKnown(b.Reporter) || b.ready() != v1.ConditionTrue {
			t.Error("it is not ready 5 s after the server came")
		}
	})
}

func TestARuntimeThatHangsHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		b.mu.Lock()
		b.blocked = true
		b.mu.Unlock()
		after(2 * time.Minute)
		b.take()
		b.SetRuntime(errors.New("hangs"))
		after(10 * time.Second)
		if b.ready() != v1.ConditionFalse {
			t.Error("the node is ready")
		}
		if n := b.shown().Status.NodeInfo.ContainerRuntimeVersion; n != "containerd://2.4.2" {
			t.Errorf("the runtime is %q", n)
		}
		if calls := b.take(); !slices.Contains(calls, "update leases") {
			t.Errorf("calls %q", calls)
		}
	})
}
