package addresses

import (
	"net/netip"
	"testing"
)

func TestTheAddressOfTheNode(t *testing.T) {
	pods := []netip.Prefix{{}, netip.MustParsePrefix("10.88.0.0/16"), netip.MustParsePrefix("10.82.0.0/22")}
	for name, test := range map[string]struct {
		routed, all []string
		want        string
	}{
		"no network":                 {nil, []string{"127.0.0.1", "::1"}, "127.0.0.1"},
		"only that of the pods":      {nil, []string{"127.0.0.1", "10.88.0.1"}, "127.0.0.1"},
		"only those of pods":         {nil, []string{"127.0.0.1", "10.88.0.1", "10.82.0.1"}, "127.0.0.1"},
		"the way out goes first":     {[]string{"192.0.2.7"}, []string{"172.17.0.1", "192.0.2.7"}, "192.0.2.7"},
		"no way out":                 {nil, []string{"127.0.0.1", "10.88.0.1", "172.17.0.1"}, "172.17.0.1"},
		"IPv4 before IPv6":           {[]string{"2001:db8::7", "192.0.2.7"}, nil, "192.0.2.7"},
		"IPv6 if there is no other":  {nil, []string{"fe80::1", "2001:db8::7"}, "2001:db8::7"},
		"a way out over the bridge?": {[]string{"10.88.0.1"}, []string{"10.88.0.1", "192.0.2.9"}, "192.0.2.9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodeIP(addrs(test.routed), addrs(test.all), pods); got.String() != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func addrs(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}
