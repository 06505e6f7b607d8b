package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestConditionsFollowHealth(t *testing.T) {
	down := errors.New("no answer")
	for name, c := range map[string]struct {
		health Health
		want   map[v1.NodeConditionType]string // status, reason, and what the message has
	}{
		"all is well": {Health{}, map[v1.NodeConditionType]string{
			"Ready": "True KubeletReady", "MemoryPressure": "False KubeletHasSufficientMemory",
			"DiskPressure": "False KubeletHasNoDiskPressure", "PIDPressure": "False KubeletHasSufficientPID",
		}},
		"runtime and network": {Health{Runtime: down, Network: errors.New("no plugin")}, map[v1.NodeConditionType]string{
			"Ready": "False KubeletNotReady container runtime not ready: no answer; container runtime network not ready: no plugin",
		}},
		"shutdown": {Health{Shutdown: errors.New("power")}, map[v1.NodeConditionType]string{"Ready": "False KubeletNotReady the node takes no pods: power"}},
		"pressure": {Health{Pressure: Pressure{Memory: true, Disk: true, PIDs: true}}, map[v1.NodeConditionType]string{
			"Ready": "True", "MemoryPressure": "True KubeletHasInsufficientMemory",
			"DiskPressure": "True KubeletHasDiskPressure", "PIDPressure": "True KubeletHasInsufficientPID",
		}},
		"a long story": {Health{Runtime: errors.New(strings.Repeat("é", 5000))}, map[v1.NodeConditionType]string{"Ready": "False"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := conditions(c.health, nil, noon)
			for kind, want := range c.want {
				is := find(got, kind)
				if line := fmt.Sprintf("%s %s %s", is.Status, is.Reason, is.Message); !strings.HasPrefix(line, want) || len(line) > 1100 {
					t.Errorf("%s is %q, want %q", kind, line, want)
				}
			}
		})
	}
}

func TestTheTimeOfATransitionStays(t *testing.T) {
	early, late := stamp(noon), stamp(noon.Add(time.Hour))
	foreign := v1.NodeCondition{Type: "KernelDeadlock", Status: v1.ConditionFalse, LastHeartbeatTime: early}
	first := conditions(Health{}, []v1.NodeCondition{foreign}, noon)
	then := conditions(Health{Network: errors.New("gone")}, first, late.Time)

	if c := find(then, v1.NodeMemoryPressure); !c.LastTransitionTime.Equal(&early) || !c.LastHeartbeatTime.Equal(&late) {
		t.Errorf("unchanged: %v", c)
	}
	if c := find(then, v1.NodeReady); !c.LastTransitionTime.Equal(&late) {
		t.Errorf("changed: %v", c)
	}
	if c := find(then, "KernelDeadlock"); *c != foreign {
		t.Errorf("somebody else's: %v", c)
	}
	changed := transitions(first, then)
	if len(changed) != 1 || changed[0].Type != v1.NodeReady {
		t.Fatalf("transitions %v", changed)
	}
	if reason, message := eventFor("box", changed[0]); reason != "NodeNotReady" || message != "Node box status is now: NodeNotReady" {
		t.Errorf("reported as %s: %s", reason, message)
	}
}

func TestAClockThatIsSetIsNoNews(t *testing.T) {
	first := conditions(Health{}, nil, noon)
	for name, now := range map[string]time.Time{"back": noon.Add(-time.Hour), "forward": noon.AddDate(30, 0, 0)} {
		then := conditions(Health{}, first, now)
		if changed := transitions(first, then); len(changed) != 0 {
			t.Errorf("set %s: transitions %v", name, changed)
		}
		if !sameStatus(v1.NodeStatus{Conditions: first}, v1.NodeStatus{Conditions: then}) {
			t.Errorf("set %s: it is to be written at once", name)
		}
		if c := find(then, v1.NodeReady); !c.LastTransitionTime.Time.Equal(noon) || !c.LastHeartbeatTime.Time.Equal(now) {
			t.Errorf("set %s: %v", name, c)
		}
	}
}

func TestEveryConditionHasItsEvent(t *testing.T) {
	var got []string
	for _, h := range []Health{{}, {Runtime: errors.New("x"), Pressure: Pressure{true, true, true}}} {
		for _, c := range ourConditions(h) {
			reason, _ := eventFor("box", c)
			got = append(got, reason)
		}
	}
	want := []string{
		"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady",
		"NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID", "NodeNotReady",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
