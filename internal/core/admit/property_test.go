package admit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

// Whatever runs, the preempted pods free enough, each of them is needed, and none of them must
// stay.
func TestEveryPreemptionKeepsToTheRules(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(1000) {
		bytes := make([]byte, 1200)
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := 0; i < len(bytes); i += 8 {
			binary.LittleEndian.PutUint64(bytes[i:], rng.Uint64())
		}
		what, err := judge(generator{bytes})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		seen[what]++
	}
	for _, what := range []string{"admitted", "rejected", "preempted 1", "preempted 3"} {
		if seen[what] == 0 {
			t.Errorf("nothing was ever %s: the rules were not put to the test (%v)", what, seen)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte("a pod"))
	f.Add([]byte(strings.Repeat("cpu, memory, ports, priorities, ", 8)))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if _, err := judge(generator{bytes[:min(len(bytes), 1000)]}); err != nil {
			t.Fatal(err)
		}
	})
}

// judge generates a node and its pods, and checks the decision on one of them. what describes the
// case.
func judge(choices generator) (what string, err error) {
	node := choices.node()
	p := choices.pod("new")
	var running []*v1.Pod
	for i := range choices.choose(12) {
		running = append(running, choices.pod(fmt.Sprint(i)))
	}
	before := copies(append(running, p))

	if err := judgeOccupancy(choices, p, running, node); err != nil {
		return "", err
	}
	decide(p, running, node) // features may be in the way; it must only not fail
	d := decideRoom(p, tenants(p, running), node)
	switch {
	case !reflect.DeepEqual(before, append(running, p)):
		return "", errors.New("a pod was changed")
	case d.Reject != nil && len(d.Preempt) > 0:
		return "", errors.New("rejected, and others preempted")
	case d.Reject == nil && len(d.Preempt) == 0:
		return "admitted", fits(p, running, node)
	case d.Reject != nil:
		if pod.IsCritical(p) && fits(p, without(running, preemptable(running)...), node) == nil {
			return "", fmt.Errorf("rejected for %q, and could be admitted", d.Reject.Message)
		}
		return "rejected", nil
	}
	return fmt.Sprintf("preempted %d", len(d.Preempt)), judgeVictims(p, running, d.Preempt, node)
}

// judgeOccupancy counts pods in some order, with earlier versions of them and with pods
// that go again, and asks whether one more fits beside them.
func judgeOccupancy(choices generator, p *v1.Pod, running []*v1.Pod, node Node) error {
	var o Occupancy
	if choices.maybe() {
		o.Put(choices.pod(p.Name))
	}
	for _, other := range running {
		if choices.maybe() {
			o.Put(choices.pod(other.Name))
		}
		gone := choices.pod("gone")
		o.Put(gone)
		o.Put(other)
		o.Remove(gone.UID)
	}
	if r := checkRoom(p, tenants(p, running), node); o.fits(p, node) != (r == nil) {
		return fmt.Errorf("beside all counted pods it fits: %v; beside each of them: %v", o.fits(p, node), r)
	}
	for _, other := range append(running, p) {
		o.Remove(other.UID)
	}
	if len(o.pods)+len(o.used)+len(o.ports) > 0 {
		return fmt.Errorf("nothing runs, and this is counted: %v", o)
	}
	return nil
}

func judgeVictims(p *v1.Pod, running, victims []*v1.Pod, node Node) error {
	if !pod.IsCritical(p) {
		return errors.New("a pod that is not critical preempts others")
	}
	if err := fits(p, without(running, victims...), node); err != nil {
		return fmt.Errorf("not enough: %w", err)
	}
	for _, victim := range victims {
		switch {
		case pod.IsCritical(victim):
			return fmt.Errorf("%s is critical", victim.Name)
		case fits(p, append(without(running, victims...), victim), node) == nil:
			return fmt.Errorf("%s need not go", victim.Name)
		}
	}
	if err := judgeWorth(p, running, victims, node); err != nil {
		return err
	}
	slices.Reverse(running)
	if again := decideRoom(p, tenants(p, running), node); !slices.Equal(names(again.Preempt), names(victims)) {
		return fmt.Errorf("%v, but %v with the pods in another order", names(victims), names(again.Preempt))
	}
	return nil
}

// judgeWorth checks that no pod is preempted while pods of lower priority would free enough.
func judgeWorth(p *v1.Pod, running, victims []*v1.Pod, node Node) error {
	all := map[pod.UID]*tenant{}
	for _, t := range tenants(p, running) {
		all[t.UID] = t
	}
	for _, victim := range victims {
		if _, holder := firstClash(HostPorts(p), all[victim.UID]); holder {
			continue
		}
		var less []*v1.Pod
		for _, other := range preemptable(running) {
			_, holder := firstClash(HostPorts(p), all[other.UID])
			if holder || compareWorth(all[other.UID], all[victim.UID]) < 0 {
				less = append(less, other)
			}
		}
		if fits(p, without(running, less...), node) == nil {
			return fmt.Errorf("%s goes, but %v would do", victim.Name, names(less))
		}
	}
	return nil
}

func fits(p *v1.Pod, running []*v1.Pod, node Node) error {
	if r := checkRoom(p, tenants(p, running), node); r != nil {
		return errors.New(r.Message)
	}
	return nil
}

func preemptable(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), pod.IsCritical)
}

func without(pods []*v1.Pod, gone ...*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return slices.Contains(gone, p) })
}

func copies(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		out = append(out, p.DeepCopy())
	}
	return out
}

// generator makes things up, one byte a choice. When it runs out it chooses the
// first of everything.
type generator struct{ bytes []byte }

func (v *generator) choose(n int) int {
	if len(v.bytes) == 0 {
		return 0
	}
	b := v.bytes[0]
	v.bytes = v.bytes[1:]
	return int(b) % n
}

func (v *generator) maybe() bool { return v.choose(2) == 1 }

func (v *generator) node() Node {
	node := Node{Name: "box", Kernel: []string{"", "x", "6.1"}[v.choose(3)], UnsafeSysctls: []string{"*", ""}}
	if v.maybe() {
		node.Labels = map[string]string{"disk": "fast"}
		node.Taints = []v1.Taint{{Effect: v1.TaintEffectNoExecute}}
	}
	if v.choose(8) > 0 {
		node.Allocatable = v1.ResourceList{"pods": *resource.NewQuantity(int64(v.choose(14)), resource.DecimalSI)}
		for _, name := range []v1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/gpu"} {
			node.Allocatable[name] = *resource.NewQuantity(int64(8+v.choose(16)), resource.DecimalSI)
		}
	}
	return node
}

func (v *generator) pod(name string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.UID = name, pod.UID(name)
	switch v.choose(4) {
	case 0:
		p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile}
	case 1:
		p.Spec.Priority = new(int32(v.choose(3)))
	}
	if v.choose(8) == 0 {
		leaving(p)
	}
	p.Spec.HostNetwork = v.choose(8) == 0
	for range v.choose(3) {
		c := v1.Container{Resources: v1.ResourceRequirements{Requests: v.amounts()}}
		if v.choose(4) == 0 {
			c.Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: int32(v.choose(3)), HostIP: []string{"", "::", "x", "10.0.0.1"}[v.choose(4)]}}
		}
		if v.choose(3) == 0 {
			c.Resources.Limits = c.Resources.Requests
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	if v.choose(4) == 0 {
		v.addExtras(p)
	}
	return p
}

// amounts invents requests, most of them of a sound size.
func (v *generator) amounts() v1.ResourceList {
	out := v1.ResourceList{}
	for _, name := range []v1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/gpu", "example.com/licence", ""} {
		switch v.choose(12) {
		case 0, 1, 2, 3, 4:
			out[name] = *resource.NewQuantity(int64(v.choose(8)), resource.BinarySI)
		case 5:
			out[name] = *resource.NewMilliQuantity(int64(v.choose(4000)), resource.DecimalSI)
		case 6:
			out[name] = resource.MustParse([]string{"-3", "0", "1n", "9223372036854775807", "-9223372036854775808", "5e20", "1.5Ei"}[v.choose(7)])
		}
	}
	return out
}

// addExtras adds rarer fields to a pod.
func (v *generator) addExtras(p *v1.Pod) {
	policy := v1.ContainerRestartPolicy([]string{"", "Always"}[v.choose(2)])
	p.Spec.InitContainers = []v1.Container{{RestartPolicy: &policy, Resources: v1.ResourceRequirements{Requests: v.amounts()}}}
	if v.maybe() {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: v.amounts()}
		p.Spec.Overhead = v.amounts()
	}
	if v.maybe() {
		p.Spec.NodeSelector = map[string]string{"": ""}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{}, {MatchFields: make([]v1.NodeSelectorRequirement, 1)}, {MatchExpressions: make([]v1.NodeSelectorRequirement, 1)}},
		}}}
		p.Spec.Tolerations = []v1.Toleration{{}, {Key: "a", Operator: v1.TolerationOpGt}}
	}
	if v.maybe() {
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: []string{"", "/", ".", "net/*", "net.ipv4.tcp_rmem"}[v.choose(5)]}}}
	}
}
