package status

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func cond(which v1.PodConditionType, is v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: which, Status: is}
}

// applied returns the status that the API server makes of held and a patch.
func applied(t *testing.T, held v1.PodStatus, raw []byte) v1.PodStatus {
	t.Helper()
	before, err := json.Marshal(v1.Pod{Status: held})
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, raw, v1.Pod{})
	if err != nil {
		t.Fatalf("apply %s: %v", raw, err)
	}
	var p v1.Pod
	if err := json.Unmarshal(after, &p); err != nil {
		t.Fatal(err)
	}
	if p.UID != "u" {
		t.Errorf("the patch %s does not name the pod", raw)
	}
	return p.Status
}

// patchFor returns the patch that is sent for a status, or nil if none is.
func patchFor(held, want v1.PodStatus) ([]byte, error) {
	fields, err := difference(held, want)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	return encodePatch("u", fields)
}

func TestAPatchMakesTheDifference(t *testing.T) {
	at := metav1.NewTime(noon)
	running := []v1.ContainerStatus{{Name: "app", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}}}
	for name, c := range map[string]struct {
		known, held, want, after v1.PodStatus // known is what we take the server to hold
	}{
		"first": {
			held:  v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBurstable, Conditions: []v1.PodCondition{cond(v1.PodScheduled, "True")}},
			want:  v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.2", PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}, ContainerStatuses: running, Conditions: []v1.PodCondition{cond(v1.PodReady, "True"), cond(v1.PodScheduled, "True")}},
			after: v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSBurstable, PodIP: "10.0.0.2", PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}, ContainerStatuses: running, Conditions: []v1.PodCondition{cond(v1.PodReady, "True"), cond(v1.PodScheduled, "True")}},
		},
		"what others wrote stays, also if we do not know of it": {
			known: v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, "False"), cond("gate", "False")}},
			held: v1.PodStatus{
				NominatedNodeName: "n", Conditions: []v1.PodCondition{cond("gate", "True"), cond(v1.PodReady, "False"), cond("other", "True"), cond(v1.DisruptionTarget, "True")},
			},
			want: v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, "True"), cond("gate", "False")}},
			after: v1.PodStatus{
				NominatedNodeName: "n", Conditions: []v1.PodCondition{cond("gate", "True"), cond(v1.PodReady, "True"), cond("other", "True"), cond(v1.DisruptionTarget, "True")},
			},
		},
		"a condition of ours goes": {
			held:  v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.AllContainersRestarting, "True"), cond("gate", "True")}},
			want:  v1.PodStatus{},
			after: v1.PodStatus{Conditions: []v1.PodCondition{cond("gate", "True")}},
		},
		"a reason goes": {
			held:  v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: "False", Reason: "r", Message: "m"}}},
			want:  v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: "True"}}},
			after: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: "True"}}},
		},
		"the node disturbs a pod": {
			want:  v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, "True")}},
			after: v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, "True")}},
		},
		"somebody else disturbed it first": {
			held:  v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "theirs"}}},
			want:  v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "ours"}}},
			after: v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "theirs"}}},
		},
		"the node disturbs it no more": {
			held:  v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{cond(v1.PodReady, "False"), {Type: v1.DisruptionTarget, Status: "True", Reason: "TerminationByKubelet"}}},
			want:  v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.PodReady, "True")}},
			after: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.PodReady, "True")}},
		},
		"the node ended it and says nothing more": {
			held:  v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "TerminationByKubelet"}}},
			want:  v1.PodStatus{Phase: v1.PodFailed},
			after: v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "TerminationByKubelet"}}},
		},
		"somebody else still disturbs it": {
			held:  v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "theirs"}}},
			want:  v1.PodStatus{Phase: v1.PodRunning},
			after: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "theirs"}}},
		},
		"addresses replace all that was there": {
			known: v1.PodStatus{PodIP: "10.0.0.2", PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}},
			held:  v1.PodStatus{PodIP: "10.0.0.9", PodIPs: []v1.PodIP{{IP: "10.0.0.9"}}},
			want:  v1.PodStatus{PodIP: "10.0.0.3", PodIPs: []v1.PodIP{{IP: "10.0.0.3"}, {IP: "fd00::3"}}, HostIPs: []v1.HostIP{{IP: "10.1.0.1"}}},
			after: v1.PodStatus{PodIP: "10.0.0.3", PodIPs: []v1.PodIP{{IP: "10.0.0.3"}, {IP: "fd00::3"}}, HostIPs: []v1.HostIP{{IP: "10.1.0.1"}}},
		},
		"addresses change places": {
			held:  v1.PodStatus{PodIP: "a", PodIPs: []v1.PodIP{{IP: "a"}, {IP: "b"}}},
			want:  v1.PodStatus{PodIP: "b", PodIPs: []v1.PodIP{{IP: "b"}, {IP: "a"}}},
			after: v1.PodStatus{PodIP: "b", PodIPs: []v1.PodIP{{IP: "b"}, {IP: "a"}}},
		},
		"addresses go": {
			held:  v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.2", PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}, Message: "m"},
			want:  v1.PodStatus{Phase: v1.PodFailed},
			after: v1.PodStatus{Phase: v1.PodFailed},
		},
		"a static pod has no generation": {
			held:  v1.PodStatus{ObservedGeneration: 1, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: "False", ObservedGeneration: 1}}},
			want:  v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: "True"}}},
			after: v1.PodStatus{ObservedGeneration: 1, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: "True", ObservedGeneration: 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if equality.Semantic.DeepEqual(c.known, v1.PodStatus{}) {
				c.known = c.held
			}
			raw, err := patchFor(c.known, c.want)
			if err != nil || raw == nil {
				t.Fatalf("patch %s, %v", raw, err)
			}
			after := applied(t, c.held, raw)
			if len(after.PodIPs) == 0 {
				after.PodIPs = nil
			}
			if !sameConditions(after.Conditions, c.after.Conditions) {
				t.Errorf("conditions %+v\nwant %+v\npatch %s", after.Conditions, c.after.Conditions, raw)
			}
			after.Conditions, c.after.Conditions = nil, nil
			if !equality.Semantic.DeepEqual(after, c.after) {
				t.Errorf("after %+v\nwant %+v\npatch %s", after, c.after, raw)
			}
		})
	}
}

func sameConditions(a, b []v1.PodCondition) bool {
	byType := func(list []v1.PodCondition) map[v1.PodConditionType]v1.PodCondition {
		out := map[v1.PodConditionType]v1.PodCondition{}
		for _, c := range list {
			out[c.Type] = c
		}
		return out
	}
	return len(a) == len(b) && reflect.DeepEqual(byType(a), byType(b))
}

func TestNothingNewIsNoPatch(t *testing.T) {
	held := v1.PodStatus{
		Phase: v1.PodRunning, QOSClass: v1.PodQOSGuaranteed, ObservedGeneration: 3, StartTime: ptr(noon),
		PodIPs: []v1.PodIP{{IP: "a"}, {IP: "b"}},
		Conditions: []v1.PodCondition{
			cond("gate", "True"), cond(v1.PodScheduled, "True"), cond(v1.PodReady, "True"), cond(v1.DisruptionTarget, "True"),
		},
	}
	want := *held.DeepCopy()
	want.QOSClass, want.ObservedGeneration = "", 0
	want.StartTime = ptr(noon.Add(300 * time.Millisecond)) // which does not get over the wire
	want.Conditions = []v1.PodCondition{cond(v1.PodReady, "True"), cond(v1.PodScheduled, "True"), cond("gate", "False")}
	if raw, err := patchFor(held, want); err != nil || raw != nil {
		t.Errorf("patch %s, %v", raw, err)
	}
}

func TestAPatchHoldsOnlyWhatChanged(t *testing.T) {
	held := v1.PodStatus{Phase: v1.PodPending, HostIP: "h", StartTime: ptr(noon), Conditions: []v1.PodCondition{cond(v1.PodReady, "False"), cond(v1.PodScheduled, "True")}}
	want := *held.DeepCopy()
	want.Phase = v1.PodRunning
	raw, err := patchFor(held, want)
	if err != nil || string(raw) != `{"metadata":{"uid":"u"},"status":{"phase":"Running"}}` {
		t.Errorf("patch %s, %v", raw, err)
	}
	want.Conditions[0].Status = "True"
	raw, err = patchFor(held, want)
	if err != nil || strings.Contains(string(raw), "lastTransitionTime\":\"2") || strings.Count(string(raw), `"status":"True"`) != 1 {
		t.Errorf("patch %s, %v", raw, err)
	}
}
