package localapi

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/find"
	"berth/internal/lib/pod"
)

func TestDiff(t *testing.T) {
	a, b, c := newPod("x", "a"), newPod("x", "b"), newPod("x", "c")
	changed := b.DeepCopy()
	changed.Status.Phase = v1.PodFailed
	bad := pod.Refusal{Origin: "bad.yaml", Message: "no name"}
	worse := pod.Refusal{Origin: "bad.yaml", Message: "no kind"}

	var was sent
	steps := []struct {
		name    string
		pods    []*v1.Pod
		refused []pod.Refusal
		want    []string
	}{
		{"the beginning", []*v1.Pod{a, b}, []pod.Refusal{bad, bad}, []string{"ADDED a", "ADDED b", "REFUSED no name"}},
		{"nothing new", []*v1.Pod{a, b}, []pod.Refusal{bad}, nil},
		{"equal copies", []*v1.Pod{a.DeepCopy(), b.DeepCopy()}, []pod.Refusal{bad}, nil},
		{"one changed", []*v1.Pod{a, changed}, []pod.Refusal{bad}, []string{"MODIFIED b"}},
		{"what went comes first", []*v1.Pod{changed, c}, []pod.Refusal{worse}, []string{"DELETED a", "RESOLVED no name", "ADDED c", "REFUSED no kind"}},
		{"all is gone", nil, nil, []string{"DELETED b", "DELETED c", "RESOLVED no kind"}},
	}
	for _, s := range steps {
		now, events := was.next(s.pods, s.refused)
		was = now
		var got []string
		for _, e := range events {
			got = append(got, eventText(e))
		}
		if s.pods == nil {
			slices.Sort(got) // pods that go together go in any order
		}
		if !slices.Equal(got, s.want) {
			t.Errorf("%s: got %q, want %q", s.name, got, s.want)
		}
	}
	if a.Kind != "" {
		t.Error("a pod of the state was written to")
	}
}

func eventText(e api.Event) string {
	switch {
	case e.Pod != nil:
		return fmt.Sprintf("%s %s", e.Type, find.ManifestName(e.Pod))
	case e.Refusal != nil:
		return fmt.Sprintf("%s %s", e.Type, e.Refusal.Message)
	default:
		return string(e.Type)
	}
}

func TestChangesBecomeEvents(t *testing.T) {
	a, b, c, elsewhere := newPod("x", "a"), newPod("x", "b"), newPod("x", "c"), newPod("y", "d")
	changed := b.DeepCopy()
	changed.Status.Phase = v1.PodFailed
	bad := pod.Refusal{Origin: "bad.yaml", Message: "no name"}
	was, _ := sent{}.next([]*v1.Pod{a, b}, nil)
	for _, s := range []struct {
		name    string
		changes pod.Changes
		want    []string
	}{
		{"nothing", pod.Changes{}, nil},
		{"the same pod", pod.Changes{Pods: []*v1.Pod{a}}, nil},
		{"one changed", pod.Changes{Pods: []*v1.Pod{changed}}, []string{"MODIFIED b"}},
		{"what went comes first", pod.Changes{Pods: []*v1.Pod{c}, Gone: []pod.UID{a.UID}, Refused: []pod.Refusal{bad}, NewRefusals: true}, []string{"DELETED a", "ADDED c", "REFUSED no name"}},
		{"others do not matter", pod.Changes{Pods: []*v1.Pod{elsewhere}, Gone: []pod.UID{"never seen"}}, nil},
		{"the refusals are not sent", pod.Changes{}, nil},
		{"they are gone", pod.Changes{NewRefusals: true}, []string{"RESOLVED no name"}},
	} {
		var got []string
		for _, e := range was.apply(s.changes, find.Filter{Namespace: "x"}) {
			got = append(got, eventText(e))
		}
		if !slices.Equal(got, s.want) {
			t.Errorf("%s: got %q, want %q", s.name, got, s.want)
		}
	}
}
