package app

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"berth/internal/runtime/render"
)

func TestTheResolverOfTheMachine(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want render.DNS
	}{
		"one of each": {
			"# mine\nsearch lan.example\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions rotate\n",
			render.DNS{Servers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"lan.example"}, Options: []string{"rotate"}},
		},
		"options add up": {
			"options ndots:2 rotate ndots:3\nnameserver 192.0.2.1\noptions edns0 ndots:4\n",
			render.DNS{Servers: []string{"192.0.2.1"}, Options: []string{"ndots:4", "rotate", "edns0"}},
		},
		"of domains, the last line counts": {"search a b\nsearch c\n", render.DNS{Searches: []string{"c"}}},
		"and may say that there are none":  {"search a b\nsearch\n", render.DNS{}},
		"the top is no domain of its own":  {"search . a. b\n", render.DNS{Searches: []string{"a", "b"}}},
		"half a line":                      {"nameserver\noptions\n", render.DNS{}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := machineDNS(path)
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestHowHotProcessorsAreIsHidden(t *testing.T) {
	const cpus = "sys/devices/system/cpu/"
	machine := fstest.MapFS{
		cpus + "cpu0/thermal_throttle/core_throttle_count":  {},
		cpus + "cpu11/thermal_throttle/core_throttle_count": {},
		cpus + "cpu2/cache/index0/size":                     {},
		cpus + "cpufreq/thermal_throttle/x":                 {},
	}
	want := []string{"/sys/devices/system/cpu/cpu0/thermal_throttle", "/sys/devices/system/cpu/cpu11/thermal_throttle"}
	if got := throttlePaths(machine); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := throttlePaths(fstest.MapFS{}); got != nil {
		t.Errorf("where there are none: %v", got)
	}
}
