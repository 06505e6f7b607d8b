package admit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// hostPort is a port of the machine that a pod occupies.
type hostPort struct {
	port     int32
	protocol v1.Protocol
	ip       netip.Addr // the zero address stands for all of them
}

func checkHostPorts(p *v1.Pod, others []*tenant) *Rejection {
	wanted := hostPorts(p)
	for _, t := range others {
		if port, taken := firstClash(wanted, t); taken {
			return portTaken(port, t)
		}
	}
	return nil
}

// firstClash returns the first of the wanted ports that another pod holds.
func firstClash(wanted []hostPort, t *tenant) (hostPort, bool) {
	if len(wanted) == 0 {
		return hostPort{}, false
	}
	for _, taken := range t.ports {
		for _, want := range wanted {
			if clash(want, taken) {
				return want, true
			}
		}
	}
	return hostPort{}, false
}

func portTaken(port hostPort, by *tenant) *Rejection {
	return &Rejection{
		Reason:  pod.ReasonNodePorts,
		Message: fmt.Sprintf("host port %s is already in use by pod %s", port, pod.Ref(by.Pod)),
	}
}

// hostPorts lists the ports of the machine that a pod occupies. On the host's
// network, every port of a container is one. Those of init containers are free
// again soon, except for sidecars.
func hostPorts(p *v1.Pod) []hostPort {
	var out []hostPort
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
			out = append(out, hostPort{
				port:     number,
				protocol: cmp.Or(port.Protocol, v1.ProtocolTCP),
				ip:       address(port.HostIP),
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

func clash(a, b hostPort) bool {
	return a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || !a.ip.IsValid() || !b.ip.IsValid())
}

// String writes a port as in 8080/TCP or 8080/TCP on 10.0.0.1.
func (h hostPort) String() string {
	s := fmt.Sprintf("%d/%s", h.port, h.protocol)
	if h.ip.IsValid() {
		s += " on " + h.ip.String()
	}
	return s
}
