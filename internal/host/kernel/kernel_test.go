package kernel

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestHowHotProcessorsAreIsHidden(t *testing.T) {
	const cpus = "sys/devices/system/cpu/"
	machine := fstest.MapFS{
		cpus + "cpu0/thermal_throttle/core_throttle_count":  {},
		cpus + "cpu11/thermal_throttle/core_throttle_count": {},
		cpus + "cpu2/cache/index0/size":                     {},
		cpus + "cpufreq/thermal_throttle/x":                 {},
	}
	want := []string{"/sys/devices/system/cpu/cpu0/thermal_throttle", "/sys/devices/system/cpu/cpu11/thermal_throttle"}
	if got := ThrottlePaths(machine); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := ThrottlePaths(fstest.MapFS{}); got != nil {
		t.Errorf("where there are none: %v", got)
	}
}

func TestSwap(t *testing.T) {
	for table, want := range map[string]bool{
		"": false, "Filename\tType\tSize\n": false, "Filename\tType\tSize\n/dev/sda2\tpartition\t1\n": true, "Filename\tType\tSize\n/swap\tfile\t1": true,
	} {
		if got := hasSwap(table); got != want {
			t.Errorf("%q: got %t", table, got)
		}
	}
}

func TestKernelsWithoutNoswap(t *testing.T) {
	for release, lacks := range map[string]bool{"5.15.0-91-generic\n": true, "6.3.13": true, "6.4.0": false, "6.18.2": false, "7.0": false, "": false} {
		if got := LacksNoswap(release); got != lacks {
			t.Errorf("%q: got %t", release, got)
		}
	}
}
