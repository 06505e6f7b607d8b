package admit

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func critical(p *v1.Pod) *v1.Pod {
	p.Spec.Priority = new(int32(2_000_000_000))
	return p
}

func priority(value int32, p *v1.Pod) *v1.Pod {
	p.Spec.Priority = &value
	return p
}

func guaranteed(p *v1.Pod) *v1.Pod {
	r := &p.Spec.Containers[0].Resources
	r.Requests["memory"] = list("memory", "1")["memory"]
	r.Limits = r.Requests
	return p
}

func leaving(p *v1.Pod) *v1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return p
}

func born(second int64, p *v1.Pod) *v1.Pod {
	p.CreationTimestamp = metav1.Unix(second, 0)
	return p
}

func port(p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
	return p
}

func names(pods []*v1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestPreemption(t *testing.T) {
	node := Node{Allocatable: list("cpu", "4", "memory", "1Gi", "pods", "5")}
	for name, test := range map[string]struct {
		pod    *v1.Pod
		others []*v1.Pod
		reject string
		want   []string
	}{
		"there is room":              {critical(asking("new", "cpu", "1")), []*v1.Pod{asking("a", "cpu", "1")}, "", nil},
		"not critical":               {priority(1_000_000, asking("new", "cpu", "4")), []*v1.Pod{asking("a", "cpu", "1")}, "OutOfcpu", nil},
		"critical":                   {critical(asking("new", "cpu", "4")), []*v1.Pod{asking("a", "cpu", "1")}, "", []string{"a"}},
		"static":                     {static(asking("new", "cpu", "4")), []*v1.Pod{priority(1_000_000, asking("a", "cpu", "1"))}, "", []string{"a"}},
		"not one of the critical":    {static(asking("new", "cpu", "4")), []*v1.Pod{critical(asking("a", "cpu", "1")), asking("b", "cpu", "1")}, "OutOfcpu", nil},
		"not a static one":           {critical(asking("new", "cpu", "4")), []*v1.Pod{static(asking("a", "cpu", "1"))}, "OutOfcpu", nil},
		"more than the node has":     {static(asking("new", "cpu", "5")), []*v1.Pod{asking("a", "cpu", "1")}, "OutOfcpu", nil},
		"the lack that stays":        {static(asking("new", "cpu", "4", "memory", "2Gi")), []*v1.Pod{asking("a", "cpu", "1")}, "OutOfmemory", nil},
		"those that would not help":  {static(asking("new", "cpu", "4")), []*v1.Pod{newPod("a"), asking("b", "memory", "1"), asking("c", "cpu", "1")}, "", []string{"c"}},
		"as few as will do":          {static(asking("new", "cpu", "2")), []*v1.Pod{asking("a", "cpu", "500m"), asking("b", "cpu", "500m"), asking("c", "cpu", "2")}, "", []string{"c"}},
		"the smallest that will do":  {static(asking("new", "cpu", "1")), []*v1.Pod{asking("a", "cpu", "2"), asking("b", "cpu", "1"), asking("c", "cpu", "1")}, "", []string{"b"}},
		"a place: the lowest class":  {static(newPod("new")), []*v1.Pod{guaranteed(asking("a", "cpu", "1")), newPod("b"), asking("c", "cpu", "1"), static(newPod("d")), static(newPod("e"))}, "", []string{"b"}},
		"burstable before the best":  {static(asking("new", "cpu", "2")), []*v1.Pod{guaranteed(asking("a", "cpu", "2")), asking("b", "cpu", "1"), asking("c", "cpu", "1")}, "", []string{"b", "c"}},
		"lower priority first":       {static(asking("new", "cpu", "2")), []*v1.Pod{asking("a", "cpu", "2"), priority(-1, asking("b", "cpu", "2"))}, "", []string{"b"}},
		"class goes before priority": {static(asking("new", "cpu", "2")), []*v1.Pod{guaranteed(asking("a", "cpu", "2")), priority(9, asking("b", "cpu", "2"))}, "", []string{"b"}},
		"small ones spared":          {static(asking("new", "cpu", "3")), []*v1.Pod{asking("a", "cpu", "1"), priority(9, asking("b", "cpu", "3"))}, "", []string{"b"}},
		"more of the small spared":   {static(asking("new", "cpu", "3200m")), []*v1.Pod{asking("a", "cpu", "800m"), asking("b", "cpu", "400m"), asking("c", "cpu", "400m"), priority(9, asking("d", "cpu", "1200m"))}, "", []string{"a", "d"}},
		"the better one spared":      {static(asking("new", "cpu", "3200m")), []*v1.Pod{asking("a", "cpu", "800m"), priority(1, asking("b", "cpu", "800m")), priority(2, asking("c", "cpu", "2400m"))}, "", []string{"a", "c"}},
		"the youngest of equals":     {static(asking("new", "cpu", "2")), []*v1.Pod{born(1, asking("a", "cpu", "2")), born(2, asking("b", "cpu", "2"))}, "", []string{"b"}},
		"one that leaves anyway":     {static(asking("new", "cpu", "2")), []*v1.Pod{asking("a", "cpu", "2"), leaving(guaranteed(asking("b", "cpu", "2")))}, "", []string{"b"}},
		"the port":                   {static(port(newPod("new"))), []*v1.Pod{newPod("a"), port(guaranteed(asking("b", "cpu", "1")))}, "", []string{"b"}},
		"the port alone is enough":   {static(port(asking("new", "cpu", "2"))), []*v1.Pod{asking("a", "cpu", "2"), port(guaranteed(asking("b", "cpu", "2")))}, "", []string{"b"}},
		"the port and more":          {static(port(asking("new", "cpu", "3"))), []*v1.Pod{asking("a", "cpu", "3"), port(asking("b", "cpu", "1"))}, "", []string{"a", "b"}},
		"a port of the critical":     {static(port(asking("new", "cpu", "4"))), []*v1.Pod{asking("a", "cpu", "1"), port(critical(newPod("b")))}, "NodePorts", nil},
		"two resources at a time":    {static(asking("new", "cpu", "2", "memory", "1Gi")), []*v1.Pod{asking("a", "cpu", "2"), asking("b", "cpu", "1", "memory", "512Mi"), asking("c", "cpu", "1", "memory", "1Mi")}, "", []string{"b", "c"}},
		"for another reason":         {static(func() *v1.Pod { p := asking("new", "cpu", "4"); p.Spec.OS = &v1.PodOS{Name: v1.Windows}; return p }()), []*v1.Pod{asking("a", "cpu", "1")}, "PodOSNotSupported", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(test.pod, test.others, node)
			if reason(got.Reject) != test.reject {
				t.Errorf("got %+v, wanted %q", got.Reject, test.reject)
			}
			if victims := names(got.Preempt); !reflect.DeepEqual(victims, test.want) {
				t.Errorf("preempts %v, wanted %v", victims, test.want)
			}
		})
	}
}
