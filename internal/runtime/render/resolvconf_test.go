package render

import (
	"reflect"
	"strings"
	"testing"
)

func TestTheResolverOfTheMachine(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want DNS
	}{
		"one of each": {
			"# mine\nsearch lan.example\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions rotate\n",
			DNS{Servers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"lan.example"}, Options: []string{"rotate"}},
		},
		"options add up": {
			"options ndots:2 rotate ndots:3\nnameserver 192.0.2.1\noptions edns0 ndots:4\n",
			DNS{Servers: []string{"192.0.2.1"}, Options: []string{"ndots:4", "rotate", "edns0"}},
		},
		"of domains, the last line counts": {"search a b\nsearch c\n", DNS{Searches: []string{"c"}}},
		"and may say that there are none":  {"search a b\nsearch\n", DNS{}},
		"the top is no domain of its own":  {"search . a. b\n", DNS{Searches: []string{"a", "b"}}},
		"half a line":                      {"nameserver\noptions\n", DNS{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseResolvConf(strings.NewReader(test.file))
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}
