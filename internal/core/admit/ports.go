package admit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// HostPort is a port of the machine that a pod occupies.
type HostPort struct {
	Port     int32
	Protocol v1.Protocol
	IP       netip.Addr // the zero address stands for all of them
}

// ForeignPort is a port of the machine that a pod of another agent occupies.
type ForeignPort struct {
	HostPort
	By string // the pod, and the root directory of its agent
}

func checkForeignPorts(p *v1.Pod, node Node) *Rejection {
	for _, wanted := range HostPorts(p) {
		for _, taken := range node.ForeignPorts {
			if clash(wanted, taken.HostPort) {
				return &Rejection{Reason: pod.ReasonNodePorts, Message: fmt.Sprintf("host port %s is already in use by %s", wanted, taken.By)}
			}
		}
	}
	return nil
}

func checkHostPorts(p *v1.Pod, others []*tenant) *Rejection {
	wanted := HostPorts(p)
	for _, t := range others {
		if port, taken := firstClash(wanted, t); taken {
			return portTaken(port, t)
		}
	}
	return nil
}

// firstClash returns the first of the wanted ports that another pod holds.
func firstClash(wanted []HostPort, t *tenant) (HostPort, bool) {
	if len(wanted) == 0 {
		return HostPort{}, false
	}
	for _, taken := range t.ports {
		for _, want := range wanted {
			if clash(want, taken) {
				return want, true
			}
		}
	}
	return HostPort{}, false
}

func portTaken(port HostPort, by *tenant) *Rejection {
	return &Rejection{
		Reason:  pod.ReasonNodePorts,
		Message: fmt.Sprintf("host port %s is already in use by pod %s", port, pod.Ref(by.Pod)),
	}
}

// HostPorts lists the ports of the machine that a pod occupies. On the host's
// network, every port of a container is one. Those of init containers are free
// again soon, except for sidecars.
func HostPorts(p *v1.Pod) []HostPort {
	var out []HostPort
	lasting := slices.DeleteFunc(slices.Clone(p.Spec.InitContainers), func(c v1.Container) bool { return !pod.IsSidecar(&c) })
	for _, c := range slices.Concat(lasting, p.Spec.Containers) {
		for _, port := range c.Ports {
			number := port.HostPort
			if number == 0 && p.Spec.HostNetwork {
				number = port.ContainerPort
			}
			if number == 0 {
				continue
			}
			out = append(out, HostPort{
				Port:     number,
				Protocol: cmp.Or(port.Protocol, v1.ProtocolTCP),
				IP:       address(port.HostIP),
			})
		}
	}
	return out
}

// address reads a host IP. None, one that stands for all, and one that can't be
// read (validation lets none through) are all of them.
func address(s string) netip.Addr {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.IsUnspecified() {
		return netip.Addr{}
	}
	return ip.Unmap()
}

func clash(a, b HostPort) bool {
	return a.Port == b.Port && a.Protocol == b.Protocol && (a.IP == b.IP || !a.IP.IsValid() || !b.IP.IsValid())
}

// String writes a port as in 8080/TCP or 8080/TCP on 10.0.0.1.
func (h HostPort) String() string {
	s := fmt.Sprintf("%d/%s", h.Port, h.Protocol)
	if h.IP.IsValid() {
		s += " on " + h.IP.String()
	}
	return s
}
