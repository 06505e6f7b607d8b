package server

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFindOnePod(t *testing.T) {
	old, young := newPod("x", "twice"), newPod("x", "twice")
	old.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	young.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	young.UID = "young"
	exact := newPod("x", "exact")
	longer := newPod("x", "exact-node-1")
	fromAPI := newPod("x", "api")
	fromAPI.Annotations = nil
	pods := []*v1.Pod{newPod("x", "both"), newPod("y", "both"), newPod("y", "only"), old, young, exact, longer, fromAPI}
	cases := []struct {
		name      string
		namespace string
		pod       string
		want      string // the UID, or a part of the problem
	}{
		{"by full name", "y", "only-node-1", "y-only"},
		{"by its manifest's name", "y", "only", "y-only"},
		{"in any namespace", "", "only", "y-only"},
		{"in one namespace", "x", "both", "x-both"},
		{"in two namespaces", "", "both", "ambiguous: it may be any of x/both-node-1, y/both-node-1"},
		{"the newer of two", "x", "twice", "young"},
		{"the exact name first", "x", "exact-node-1", "x-exact"},
		{"not that of a manifest if there was none", "x", "api", "not found"},
		{"in no such namespace", "z", "only", `pod "only" not found in namespace "z"`},
		{"not a part of a name", "", "onl", `pod "onl" not found`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, problem := filter{namespace: c.namespace, name: c.pod}.one(pods)
			switch {
			case problem != nil && !strings.Contains(problem.text, c.want):
				t.Errorf("got %q, want %q", problem.text, c.want)
			case problem == nil && string(p.UID) != c.want:
				t.Errorf("got pod %s, want %s", p.UID, c.want)
			}
		})
	}
}
