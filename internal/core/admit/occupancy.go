package admit

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

// Occupancy adds up the requests and host ports of pods, so that the cost of checking one more pod
// does not depend on their number. Which of them is in the way of a pod is for Decide. It belongs
// to one goroutine. The zero Occupancy has no pods.
type Occupancy struct {
	pods  map[pod.UID]*tenant
	used  map[v1.ResourceName]resource.Quantity
	ports map[portNumber][]portHolder
}

// portNumber is a HostPort on any address.
type portNumber struct {
	port     int32
	protocol v1.Protocol
}

type portHolder struct {
	uid pod.UID
	HostPort
}

func numberOf(h HostPort) portNumber { return portNumber{h.Port, h.Protocol} }

// Put counts a pod, or a new version of one.
func (o *Occupancy) Put(p *v1.Pod) {
	if known := o.pods[p.UID]; known != nil && known.Pod == p {
		return
	}
	o.Remove(p.UID)
	if o.pods == nil {
		o.pods, o.used, o.ports = map[pod.UID]*tenant{}, map[v1.ResourceName]resource.Quantity{}, map[portNumber][]portHolder{}
	}
	t := newTenant(p)
	o.pods[p.UID] = t
	for name, amount := range t.requests {
		sum := o.used[name]
		sum.Add(amount)
		o.used[name] = sum
	}
	for _, port := range t.ports {
		o.ports[numberOf(port)] = append(o.ports[numberOf(port)], portHolder{p.UID, port})
	}
}

// Remove no longer counts a pod.
func (o *Occupancy) Remove(uid pod.UID) {
	t := o.pods[uid]
	if t == nil {
		return
	}
	delete(o.pods, uid)
	for name, amount := range t.requests {
		sum := o.used[name]
		sum.Sub(amount)
		if o.used[name] = sum; sum.IsZero() {
			delete(o.used, name)
		}
	}
	for _, port := range t.ports {
		n := numberOf(port)
		o.ports[n] = slices.DeleteFunc(o.ports[n], func(h portHolder) bool { return h.uid == uid })
		if len(o.ports[n]) == 0 {
			delete(o.ports, n)
		}
	}
}

// Admits reports whether p may run beside all pods that are counted. An earlier version of p
// is not in its way.
func (o *Occupancy) Admits(p *v1.Pod, node Node) bool {
	return checkNode(p, node) == nil && o.fits(p, node)
}

func (o *Occupancy) fits(p *v1.Pod, node Node) bool {
	used := func(name v1.ResourceName) resource.Quantity {
		sum := o.used[name].DeepCopy() // a large quantity is a pointer within
		if earlier := o.pods[p.UID]; earlier != nil {
			sum.Sub(earlier.requests[name])
		}
		return sum
	}
	if len(shortages(p, used, node)) > 0 {
		return false
	}
	for _, wanted := range HostPorts(p) {
		if slices.ContainsFunc(o.ports[numberOf(wanted)], func(h portHolder) bool { return h.uid != p.UID && clash(wanted, h.HostPort) }) {
			return false
		}
	}
	return true
}
