package addresses

import (
	"net/netip"
	"slices"
	"testing"
)

func TestTheAddressOfTheNode(t *testing.T) {
	pods := []netip.Prefix{{}, netip.MustParsePrefix("10.88.0.0/16"), netip.MustParsePrefix("10.82.0.0/22")}
	for name, test := range map[string]struct {
		routed, all []string
		prefersIPv6 bool
		want        string
	}{
		"no network":                           {nil, []string{"127.0.0.1", "::1"}, false, "127.0.0.1"},
		"only that of the pods":                {nil, []string{"127.0.0.1", "10.88.0.1"}, false, "127.0.0.1"},
		"only those of pods":                   {nil, []string{"127.0.0.1", "10.88.0.1", "10.82.0.1"}, false, "127.0.0.1"},
		"the way out goes first":               {[]string{"192.0.2.7"}, []string{"172.17.0.1", "192.0.2.7"}, false, "192.0.2.7"},
		"no way out":                           {nil, []string{"127.0.0.1", "10.88.0.1", "172.17.0.1"}, false, "172.17.0.1"},
		"IPv4 before IPv6":                     {[]string{"2001:db8::7", "192.0.2.7"}, nil, false, "192.0.2.7"},
		"IPv6 if there is no other":            {nil, []string{"fe80::1", "2001:db8::7"}, false, "2001:db8::7"},
		"IPv6 before IPv4, if it is preferred": {[]string{"192.0.2.7", "2001:db8::7"}, nil, true, "2001:db8::7"},
		"IPv4, if there is no IPv6":            {[]string{"192.0.2.7"}, nil, true, "192.0.2.7"},
		"a way out over the bridge?":           {[]string{"10.88.0.1"}, []string{"10.88.0.1", "192.0.2.9"}, false, "192.0.2.9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodeIP(addrs(test.routed), addrs(test.all), pods, test.prefersIPv6); got.String() != test.want {
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

func TestAddressesThatWereSetAreTaken(t *testing.T) {
	w, err := New(Config{NodeIPs: addrs([]string{"192.0.2.7", "2001:db8::7"})})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Last(); !slices.Equal(got, []string{"192.0.2.7", "2001:db8::7"}) {
		t.Errorf("got %v", got)
	}
}
