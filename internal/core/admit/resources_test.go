package admit

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list reads "cpu", "1", "memory", "2Gi" as a resource list.
func list(words ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(words); i += 2 {
		out[v1.ResourceName(words[i])] = resource.MustParse(words[i+1])
	}
	return out
}

func asking(name string, words ...string) *v1.Pod {
	p := newPod(name)
	p.Spec.Containers[0].Resources.Requests = list(words...)
	return p
}

func TestResources(t *testing.T) {
	node := Node{Allocatable: list("cpu", "4", "memory", "1Gi", "ephemeral-storage", "10Gi", "pods", "3",
		"hugepages-2Mi", "8Mi", "example.com/gpu", "2")}
	short := func(name, rest string) *Rejection {
		return &Rejection{"OutOf" + name, "Node didn't have enough resource: " + name + ", " + rest}
	}
	sidecar, setup := asking("s", "cpu", "1"), asking("i", "cpu", "1")
	always := v1.ContainerRestartPolicyAlways
	sidecar.Spec.InitContainers = []v1.Container{{RestartPolicy: &always, Resources: v1.ResourceRequirements{Requests: list("cpu", "3500m")}}}
	setup.Spec.InitContainers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("cpu", "4")}}}
	heavy, whole := asking("h", "cpu", "1"), asking("w", "cpu", "1")
	heavy.Spec.Overhead = list("cpu", "3001m")
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "5")}

	for name, test := range map[string]struct {
		pod    *v1.Pod
		others []*v1.Pod
		node   Node
		want   *Rejection
	}{
		"all that there is":      {asking("a", "cpu", "4", "memory", "1Gi"), nil, node, nil},
		"too much CPU":           {asking("a", "cpu", "1"), []*v1.Pod{asking("b", "cpu", "3500m")}, node, short("cpu", "requested: 1000, used: 3500, capacity: 4000")},
		"too much memory":        {asking("a", "memory", "1Mi"), []*v1.Pod{asking("b", "memory", "1Gi")}, node, short("memory", "requested: 1048576, used: 1073741824, capacity: 1073741824")},
		"too much storage":       {asking("a", "ephemeral-storage", "11Gi"), nil, node, short("ephemeral-storage", "requested: 11811160064, used: 0, capacity: 10737418240")},
		"too many huge pages":    {asking("a", "hugepages-2Mi", "4Mi"), []*v1.Pod{asking("b", "hugepages-2Mi", "6Mi")}, node, short("hugepages-2Mi", "requested: 4194304, used: 6291456, capacity: 8388608")},
		"no such huge pages":     {asking("a", "hugepages-1Gi", "1Gi"), nil, node, short("hugepages-1Gi", "requested: 1073741824, used: 0, capacity: 0")},
		"too many devices":       {asking("a", "example.com/gpu", "1"), []*v1.Pod{asking("b", "example.com/gpu", "2")}, node, short("example.com/gpu", "requested: 1, used: 2, capacity: 2")},
		"one of the cluster":     {asking("a", "example.com/licence", "1"), nil, node, nil},
		"too many pods":          {newPod("a"), []*v1.Pod{newPod("b"), newPod("c"), newPod("d")}, node, short("pods", "requested: 1, used: 3, capacity: 3")},
		"the last place":         {newPod("a"), []*v1.Pod{newPod("b"), newPod("c")}, node, nil},
		"pods go before CPU":     {asking("a", "cpu", "5"), []*v1.Pod{newPod("b"), newPod("c"), newPod("d")}, node, short("pods", "requested: 1, used: 3, capacity: 3")},
		"itself, earlier":        {asking("a", "cpu", "3"), []*v1.Pod{asking("a", "cpu", "3")}, node, nil},
		"asks for nothing":       {newPod("a"), []*v1.Pod{asking("b", "cpu", "9")}, node, nil},
		"asks for zero":          {asking("a", "cpu", "0"), []*v1.Pod{asking("b", "cpu", "9")}, node, nil},
		"below zero":             {asking("a", "cpu", "-9"), []*v1.Pod{asking("b", "cpu", "9")}, node, nil},
		"others below zero":      {asking("a", "cpu", "5"), []*v1.Pod{asking("b", "cpu", "-9")}, node, short("cpu", "requested: 5000, used: 0, capacity: 4000")},
		"a sidecar adds":         {sidecar, nil, node, short("cpu", "requested: 4500, used: 0, capacity: 4000")},
		"an init container ends": {setup, nil, node, nil},
		"overhead adds":          {heavy, nil, node, short("cpu", "requested: 4001, used: 0, capacity: 4000")},
		"the pod as a whole":     {whole, nil, node, short("cpu", "requested: 5000, used: 0, capacity: 4000")},
		"a sum beyond all":       {asking("a", "memory", "1"), []*v1.Pod{asking("b", "memory", "9223372036854775807"), asking("c", "memory", "9223372036854775807")}, node, short("memory", "requested: 1, used: 9223372036854775807, capacity: 1073741824")},
		"CPU beyond all":         {asking("a", "cpu", "9223372036854775807"), nil, node, short("cpu", "requested: 9223372036854775807, used: 0, capacity: 4000")},
		"nothing known":          {asking("a", "cpu", "100", "hugepages-1Gi", "1Gi"), nil, Node{}, nil},
		"CPU not known":          {asking("a", "cpu", "100"), nil, Node{Allocatable: list("pods", "3")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, checkRoom(test.pod, tenants(test.pod, test.others), test.node), test.want)
		})
	}
}

func TestShortagesAreReportedInOrder(t *testing.T) {
	p := asking("a", "example.com/b", "2", "hugepages-2Mi", "2Mi", "example.com/a", "2", "memory", "2", "ephemeral-storage", "2", "cpu", "2")
	node := Node{Allocatable: list("pods", "0", "cpu", "1", "memory", "1", "ephemeral-storage", "1", "example.com/a", "1", "example.com/b", "1")}
	var got []string
	for _, s := range shortages(p, usedBy(nil), node) {
		got = append(got, string(s.name))
	}
	want := []string{"pods", "cpu", "memory", "ephemeral-storage", "example.com/a", "example.com/b", "hugepages-2Mi"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, wanted %v", got, want)
	}
}

func TestRoomIsPartOfTheCheck(t *testing.T) {
	node := Node{Allocatable: list("cpu", "1")}
	if got := Check(asking("a", "cpu", "2"), nil, node); reason(got) != "OutOfcpu" {
		t.Errorf("got %+v", got)
	}
	p := asking("a", "cpu", "2")
	p.Spec.NodeName = "other"
	node.Name = "box"
	if got := Check(p, nil, node); reason(got) != "NodeName" {
		t.Errorf("what no pod can change is to be said first: got %+v", got)
	}
}
