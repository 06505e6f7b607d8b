package find

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// newPod is a static pod of a manifest, on node-1.
func newPod(namespace, name string, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-node-1", UID: pod.UID(namespace + "-" + name),
			Annotations: map[string]string{pod.AnnotationSource: pod.SourceFile},
		},
		Spec: v1.PodSpec{NodeName: "node-1"},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c})
	}
	return p
}

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
			p, problem := Filter{Namespace: c.namespace, Name: c.pod}.One(pods)
			switch {
			case problem != nil && !strings.Contains(problem.Error(), c.want):
				t.Errorf("got %q, want %q", problem.Error(), c.want)
			case problem == nil && string(p.UID) != c.want:
				t.Errorf("got pod %s, want %s", p.UID, c.want)
			}
		})
	}
}

// The remains of a pod may lack even its name.
func TestAPodWithoutANameHidesNoOther(t *testing.T) {
	all := []*v1.Pod{newPod("x", "one"), {ObjectMeta: metav1.ObjectMeta{UID: "left"}}, newPod("y", "two")}
	if got := (Filter{}).Choose(all); len(got) != len(all) {
		t.Errorf("of %d pods, %d are chosen", len(all), len(got))
	}
}

func TestContainer(t *testing.T) {
	p := newPod("x", "web", "app", "side")
	p.Spec.InitContainers = []v1.Container{{Name: "setup"}}
	annotated := p.DeepCopy()
	annotated.Annotations[annotationDefaultContainer] = "side"
	cases := []struct {
		name string
		pod  *v1.Pod
		ask  string
		want string // the container, or a part of the problem
	}{
		{"the first", p, "", "app"},
		{"the annotated one", annotated, "", "side"},
		{"the named one", annotated, "app", "app"},
		{"an init container", p, "setup", "setup"},
		{"none of that name", p, "nope", `no container "nope": it has app, side, setup`},
		{"none at all", newPod("x", "empty"), "", "has no containers"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, problem := Container(c.pod, c.ask)
			if problem != nil {
				got = problem.Error()
			}
			if problem == nil && got != c.want || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
