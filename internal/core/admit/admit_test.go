package admit

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

func newPod(name string, ports ...v1.ContainerPort) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: pod.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "localhost/app:1", Ports: ports}}},
	}
}

func onHost(p *v1.Pod) *v1.Pod {
	p.Spec.HostNetwork = true
	return p
}

// reason returns the reason of a rejection, or nothing.
func reason(r *Rejection) string {
	if r == nil {
		return ""
	}
	return r.Reason
}

func TestOS(t *testing.T) {
	for name, test := range map[string]struct {
		os   *v1.PodOS
		node Node
		want string
	}{
		"not said":               {nil, Node{}, ""},
		"linux":                  {&v1.PodOS{Name: v1.Linux}, Node{}, ""},
		"linux, and the node is": {&v1.PodOS{Name: v1.Linux}, Node{OS: v1.Linux}, ""},
		"windows":                {&v1.PodOS{Name: v1.Windows}, Node{}, pod.ReasonPodOSNotSupported},
		"empty":                  {&v1.PodOS{}, Node{}, pod.ReasonPodOSNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod("web")
			p.Spec.OS = test.os
			if got := Check(p, nil, test.node); reason(got) != test.want {
				t.Errorf("got %+v, wanted %q", got, test.want)
			}
		})
	}
}

func TestHostPorts(t *testing.T) {
	at := func(ip string, protocol v1.Protocol) v1.ContainerPort {
		return v1.ContainerPort{ContainerPort: 80, HostPort: 8080, HostIP: ip, Protocol: protocol}
	}
	inside := v1.ContainerPort{ContainerPort: 8080}
	initially := func(policy v1.ContainerRestartPolicy) *v1.Pod {
		p := newPod("b")
		p.Spec.InitContainers = []v1.Container{{Name: "first", RestartPolicy: &policy, Ports: []v1.ContainerPort{at("", "")}}}
		return p
	}
	for name, test := range map[string]struct {
		want, taken *v1.Pod
		clash       bool
	}{
		"the same port":                 {newPod("a", at("", "")), newPod("b", at("", "")), true},
		"TCP is the default":            {newPod("a", at("", "")), newPod("b", at("", v1.ProtocolTCP)), true},
		"another protocol":              {newPod("a", at("", v1.ProtocolUDP)), newPod("b", at("", v1.ProtocolTCP)), false},
		"another port":                  {newPod("a", v1.ContainerPort{ContainerPort: 80, HostPort: 8081}), newPod("b", at("", "")), false},
		"ports of the container alone":  {newPod("a", inside), newPod("b", inside), false},
		"inside against outside":        {newPod("a", inside), newPod("b", at("", "")), false},
		"the same address":              {newPod("a", at("10.0.0.1", "")), newPod("b", at("10.0.0.1", "")), true},
		"other addresses":               {newPod("a", at("10.0.0.1", "")), newPod("b", at("10.0.0.2", "")), false},
		"one against all":               {newPod("a", at("10.0.0.1", "")), newPod("b", at("0.0.0.0", "")), true},
		"all against one":               {newPod("a", at("", "")), newPod("b", at("10.0.0.1", "")), true},
		"all of IPv6 is all":            {newPod("a", at("10.0.0.1", "")), newPod("b", at("::", "")), true},
		"all of IPv6, written long":     {newPod("a", at("10.0.0.1", "")), newPod("b", at("0:0::0", "")), true},
		"IPv6, written in two ways":     {newPod("a", at("fd00::1", "")), newPod("b", at("fd00:0:0::1", "")), true},
		"IPv4, written as IPv6":         {newPod("a", at("10.0.0.1", "")), newPod("b", at("::ffff:10.0.0.1", "")), true},
		"on the host's network":         {onHost(newPod("a", inside)), newPod("b", at("", "")), true},
		"both on the host's network":    {onHost(newPod("a", inside)), onHost(newPod("b", inside)), true},
		"no port on the host's network": {onHost(newPod("a")), onHost(newPod("b", inside)), false},
		"a sidecar's port":              {newPod("a", at("", "")), initially(v1.ContainerRestartPolicyAlways), true},
		"an init container's port":      {newPod("a", at("", "")), initially(v1.ContainerRestartPolicyNever), false},
		"an earlier version of itself":  {newPod("a", at("", "")), newPod("a", at("", "")), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(test.want, []*v1.Pod{newPod("bystander"), test.taken}, Node{})
			if !test.clash {
				if got != nil {
					t.Errorf("rejected: %+v", got)
				}
				return
			}
			if reason(got) != pod.ReasonNodePorts {
				t.Fatalf("got %+v", got)
			}
			if !strings.Contains(got.Message, "8080/TCP") || !strings.Contains(got.Message, "default/b") {
				t.Errorf("the message does not name port and pod: %q", got.Message)
			}
		})
	}
}

func TestTheAddressIsNamed(t *testing.T) {
	port := v1.ContainerPort{ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP, HostIP: "10.0.0.1"}
	got := Check(newPod("a", port), []*v1.Pod{newPod("b", port)}, Node{})
	if got == nil || got.Message != "host port 53/UDP on 10.0.0.1 is already in use by pod default/b" {
		t.Errorf("got %+v", got)
	}
}

func TestAPortOfAnotherAgentsPodIsNotGivenAway(t *testing.T) {
	wanted := v1.ContainerPort{ContainerPort: 80, HostPort: 8080}
	p := newPod("a")
	p.Spec.Containers = []v1.Container{{Name: "app", Ports: []v1.ContainerPort{wanted}}}
	taken := func(port int32, protocol v1.Protocol) Node {
		return Node{ForeignPorts: []ForeignPort{{HostPort{Port: port, Protocol: protocol}, "pod shop/web of the agent on /srv/berth"}}}
	}
	got := Check(p, nil, taken(8080, v1.ProtocolTCP))
	if reason(got) != pod.ReasonNodePorts || got.Message != "host port 8080/TCP is already in use by pod shop/web of the agent on /srv/berth" {
		t.Errorf("got %+v", got)
	}
	for _, node := range []Node{taken(8080, v1.ProtocolUDP), taken(80, v1.ProtocolTCP), {}} {
		if got := Check(p, nil, node); got != nil {
			t.Errorf("%+v: got %+v", node.ForeignPorts, got)
		}
	}
}
