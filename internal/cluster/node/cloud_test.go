package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

var (
	ip4 = netip.MustParseAddr("192.0.2.7")
	ip6 = netip.MustParseAddr("2001:db8::7")
)

func TestACloudCompletesTheNode(t *testing.T) {
	facts := Facts{Addresses: []string{"192.0.2.7", "2001:db8::7"}}
	internal := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"}, {Type: v1.NodeInternalIP, Address: "2001:db8::7"}, {Type: v1.NodeHostName, Address: "box"}}
	for name, test := range map[string]struct {
		cloud     bool
		ips       []netip.Addr
		addresses []v1.NodeAddress
		provided  string
	}{
		"no cloud":                     {false, nil, internal, ""},
		"no cloud, addresses set":      {false, []netip.Addr{ip4, ip6}, internal, ""},
		"a cloud decides on addresses": {true, nil, internal[2:], ""},
		"a cloud, addresses set":       {true, []netip.Addr{ip4, ip6}, internal, "192.0.2.7,2001:db8::7"},
		"a cloud, a family is wished":  {true, []netip.Addr{netip.IPv6Unspecified()}, internal, ""},
		"a cloud, one address set":     {true, []netip.Addr{ip4}, internal, "192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			taint := v1.Taint{Key: "a", Effect: v1.TaintEffectNoExecute}
			got := Build(facts, Settings{Name: "box", Taints: []v1.Taint{taint}, ExternalCloud: test.cloud, NodeIPs: test.ips}, Health{}, time.Now())
			want := []v1.Taint{taint}
			if test.cloud {
				want = append(want, v1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule})
			}
			if !slices.Equal(got.Spec.Taints, want) {
				t.Errorf("the taints are %v", got.Spec.Taints)
			}
			if !slices.Equal(got.Status.Addresses, test.addresses) {
				t.Errorf("the addresses are %v", got.Status.Addresses)
			}
			if text, has := got.Annotations["alpha.kubernetes.io/provided-node-ip"]; text != test.provided || has != (test.provided != "") {
				t.Errorf("the provided addresses are %q", text)
			}
		})
	}
}

func TestAddressesOfACloudStay(t *testing.T) {
	shown := v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "203.0.113.1"}}}
	settings := Settings{Name: "box", ExternalCloud: true, NodeIPs: []netip.Addr{ip4}}
	if got := Status(Facts{Addresses: []string{"192.0.2.7"}}, settings, Health{}, shown, time.Now()); !slices.Equal(got.Addresses, shown.Addresses) {
		t.Errorf("in a cloud they are %v", got.Addresses)
	}
	settings.ExternalCloud = false
	if got := Status(Facts{Addresses: []string{"192.0.2.7"}}, settings, Health{}, shown, time.Now()); len(got.Addresses) != 2 {
		t.Errorf("without one they are %v", got.Addresses)
	}
}

func TestAnAnnotationForACloudThatIsLeftIsRemoved(t *testing.T) {
	built := Build(Facts{}, Settings{Name: "box"}, Health{}, time.Now())
	shown := built.DeepCopy()
	shown.Annotations[providedIPsAnnotation] = "192.0.2.7"
	body, err := metadataPatch(shown, built)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"annotations":{"alpha.kubernetes.io/provided-node-ip":null}`; !strings.Contains(string(body), want) {
		t.Errorf("the patch is %s", body)
	}
}

func TestHostIPsAreOneOfEachFamily(t *testing.T) {
	n := &v1.Node{Status: v1.NodeStatus{Addresses: []v1.NodeAddress{
		{Type: v1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: v1.NodeHostName, Address: "box"},
		{Type: v1.NodeInternalIP, Address: "192.0.2.7"},
		{Type: v1.NodeInternalIP, Address: "192.0.2.8"},
		{Type: v1.NodeInternalIP, Address: "2001:db8::7"},
	}}}
	if got := HostIPs(n); !slices.Equal(got, []string{"192.0.2.7", "2001:db8::7"}) {
		t.Errorf("got %v", got)
	}
	if got := HostIPs(nil); got != nil {
		t.Errorf("got %v of no Node", got)
	}
}

func TestDeclaredFeaturesAreShownAndPatched(t *testing.T) {
	shown := &v1.Node{}
	want := Status(Facts{}, Settings{Name: "box", DeclaredFeatures: []string{"A"}}, Health{}, shown.Status, time.Now())
	body, err := statusPatch(shown, &want)
	if err != nil || !strings.Contains(string(body), `"declaredFeatures":["A"]`) {
		t.Errorf("the patch is %s, %v", body, err)
	}
}
