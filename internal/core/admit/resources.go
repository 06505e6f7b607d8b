package admit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"berth/internal/lib/pod"
)

// tenant is another pod of the node, with its requests and host ports.
type tenant struct {
	*v1.Pod
	requests v1.ResourceList
	ports    []HostPort
	class    int // its place in classes
}

func newTenant(p *v1.Pod) *tenant {
	return &tenant{p, requests(p), HostPorts(p), slices.Index(classes, pod.QOSClass(p))}
}

// Memo caches the requests and host ports of the pods of a node, so that they are computed once
// for each pod. It belongs to one goroutine. The zero Memo is empty.
type Memo struct {
	pods   map[pod.UID]*tenant
	others []*tenant // the slice that tenants returns, reused by each call
}

// Check is the function Check, with the cache.
func (m *Memo) Check(p *v1.Pod, running []*v1.Pod, node Node) *Rejection {
	if r := checkNode(p, node); r != nil {
		return r
	}
	return checkRoom(p, m.tenants(p, running), node)
}

// Decide is like Check, but chooses pods to preempt if a critical pod only lacks room.
func (m *Memo) Decide(p *v1.Pod, running []*v1.Pod, node Node) Decision {
	if r := checkNode(p, node); r != nil {
		return Decision{Reject: r}
	}
	return decideRoom(p, m.tenants(p, running), node)
}

// Forget drops a pod from the cache.
func (m *Memo) Forget(uid pod.UID) { delete(m.pods, uid) }

func (m *Memo) tenants(p *v1.Pod, running []*v1.Pod) []*tenant {
	m.others = m.others[:0]
	for _, other := range running {
		if other.UID != p.UID {
			m.others = append(m.others, m.tenant(other))
		}
	}
	return m.others
}

// tenant returns the cached entry of a pod. Another version of a pod is another value.
func (m *Memo) tenant(p *v1.Pod) *tenant {
	if known := m.pods[p.UID]; known != nil && known.Pod == p {
		return known
	}
	if m.pods == nil {
		m.pods = map[pod.UID]*tenant{}
	}
	t := newTenant(p)
	m.pods[p.UID] = t
	return t
}

// requests returns the requests of a pod, with all containers, its overhead, and 1 for the resource
// pods. No quantity is negative.
func requests(p *v1.Pod) v1.ResourceList {
	if p.Spec.Resources != nil && p.Spec.Overhead != nil {
		p = p.DeepCopy() // PodRequests may add the second to the first in place
	}
	out := helper.PodRequests(p, helper.PodResourcesOptions{})
	for name, amount := range out {
		if amount.Sign() < 0 {
			out[name] = resource.Quantity{}
		}
	}
	out[v1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return out
}

// shortage is a resource of which less is left than a pod asks for.
type shortage struct {
	name                      v1.ResourceName
	requested, used, capacity resource.Quantity
	missing                   resource.Quantity // how much would have to be freed
}

// shortages lists the resources of which p requests more than is left, in the order in which they
// are reported. A pod that requests nothing of a resource fits even if others request more of it
// than there is.
//
// Quantities are added up as such: a sum of large ones does not fit an int64, and
// must not come out small.
func shortages(p *v1.Pod, used func(v1.ResourceName) resource.Quantity, node Node) []shortage {
	if len(node.Allocatable) == 0 {
		return nil
	}
	var out []shortage
	wanted := requests(p)
	for _, name := range inOrder(wanted) {
		capacity, listed := node.Allocatable[name]
		isHugePage := strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !listed && !isHugePage {
			continue
		}
		s := shortage{name: name, requested: wanted[name], used: used(name), capacity: capacity}
		s.missing.Add(s.requested)
		s.missing.Add(s.used)
		s.missing.Sub(s.capacity)
		if s.requested.Sign() > 0 && s.missing.Sign() > 0 {
			out = append(out, s)
		}
	}
	return out
}

// usedBy adds up what pods ask for of a resource.
func usedBy(pods []*tenant) func(v1.ResourceName) resource.Quantity {
	return func(name v1.ResourceName) resource.Quantity {
		var sum resource.Quantity
		for _, t := range pods {
			sum.Add(t.requests[name])
		}
		return sum
	}
}

// inOrder lists the resources of a pod: the common ones first.
func inOrder(list v1.ResourceList) []v1.ResourceName {
	known := []v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	var out []v1.ResourceName
	for _, name := range known {
		if _, ok := list[name]; ok {
			out = append(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if !slices.Contains(known, name) {
			out = append(out, name)
		}
	}
	return out
}

// freed returns what is still short once some pods are gone.
func freed(short []shortage, gone ...*tenant) []shortage {
	var out []shortage
	for _, s := range short {
		s.missing = s.missing.DeepCopy() // a large quantity is a pointer within
		for _, t := range gone {
			s.missing.Sub(t.requests[s.name])
		}
		if s.missing.Sign() > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (s shortage) rejection() *Rejection {
	return &Rejection{
		Reason: reasonOutOf + string(s.name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			s.name, s.inUnits(s.requested), s.inUnits(s.used), s.inUnits(s.capacity)),
	}
}

// inUnits is an amount as users read it: thousandths of a CPU, and bytes or
// pieces of anything else. What is too large for that is shown as the largest.
func (s shortage) inUnits(q resource.Quantity) int64 {
	largest, value := int64(math.MaxInt64), q.Value
	if s.name == v1.ResourceCPU {
		largest, value = resource.MaxMilliValue, q.MilliValue
	}
	if q.CmpInt64(largest) >= 0 {
		return math.MaxInt64
	}
	return value()
}
