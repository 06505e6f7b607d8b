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
