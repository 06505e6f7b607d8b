package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestTheNodeOfAMachineWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a machine whose runtime answers
		hangs, closed := false, error(nil)
		s, err := NewStandalone(StandaloneConfig{
			Settings:  Settings{Name: "box"},
			Machine:   func() (Machine, error) { return Machine{CPUs: 2, Memory: 1 << 30}, nil },
			Addresses: func() ([]string, error) { return []string{"192.0.2.1"}, nil },
			Runtime: func(ctx context.Context) (Runtime, error) {
				if hangs {
					<-ctx.Done()
					return Runtime{}, ctx.Err()
				}
				return Runtime{Name: "containerd", Version: "2"}, nil
			},
			Status:     func(context.Context) (RuntimeStatus, error) { return RuntimeStatus{}, nil },
			Unanswered: func() []HungCall { return nil },
			Alive:      func(context.Context) error { return nil },
			Closed:     func() error { return closed },
		})
		if err != nil {
			t.Fatal(err)
		}
		read := func() (n *v1.Node, ready v1.NodeCondition) {
			t.Helper()
			n, err := s.Node(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range n.Status.Conditions {
				if c.Type == v1.NodeReady {
					ready = c
				}
			}
			return n, ready
		}
		first, ready := read()
		if ready.Status != v1.ConditionTrue || first.Spec.Unschedulable {
			t.Errorf("got %+v, %+v", ready, first.Spec)
		}
		time.Sleep(time.Minute)
		if again, now := read(); !now.LastTransitionTime.Equal(&ready.LastTransitionTime) || !again.CreationTimestamp.Equal(&first.CreationTimestamp) {
			t.Error("a node that did not change has other times")
		}
		// when the runtime hangs, then the node is not ready, and shows what it knew
		hangs = true
		now, ready := read()
		if ready.Status != v1.ConditionFalse || !strings.HasPrefix(now.Status.NodeInfo.ContainerRuntimeVersion, "containerd://") {
			t.Errorf("got %+v, %s", ready, now.Status.NodeInfo.ContainerRuntimeVersion)
		}
		// when the node is drained, then it is cordoned
		hangs, closed = false, errors.New("it is drained")
		if now, _ := read(); !now.Spec.Unschedulable {
			t.Errorf("got %+v", now.Spec)
		}
	})
}
