package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/lib/cgroupname"
)

func TestTheCgroupDriver(t *testing.T) {
	for text, want := range map[string]struct {
		driver cgroupname.Driver
		shown  string
	}{"": {"", ""}, "cgroupDriver: systemd\n": {cgroupname.Systemd, "systemd"}, "cgroupDriver: cgroupfs\n": {cgroupname.Cgroupfs, "cgroupfs"}} {
		c, err := Load("/r", Flags{}, []byte(header+text), machine)
		if err != nil || c.Cgroups.Driver != want.driver || c.Kubelet().CgroupDriver != want.shown || slices.Contains(c.NotHonoured, "cgroupDriver") {
			t.Errorf("%q: got %+v, %v", text, c, err)
		}
	}
	if _, err := Load("/r", Flags{}, []byte(header+"cgroupDriver: Systemd\n"), machine); err == nil || !strings.Contains(err.Error(), "want cgroupfs or systemd") {
		t.Errorf("got %v", err)
	}
}

func TestWhatCantBeEnforcedIsRefused(t *testing.T) {
	const cgroups = "kubeReservedCgroup: /kube\nsystemReservedCgroup: /system\n"
	for text, says := range map[string]string{
		"enforceNodeAllocatable: [everything]\n":                                              "want pods, system-reserved",
		"enforceNodeAllocatable: [none, pods]\n":                                              "leave out the others",
		"enforceNodeAllocatable: [pods, pods]\n":                                              "twice",
		"enforceNodeAllocatable: [kube-reserved]\n":                                           "set kubeReservedCgroup",
		"enforceNodeAllocatable: [kube-reserved-compressible]\n":                              "set kubeReservedCgroup",
		"enforceNodeAllocatable: [system-reserved]\n":                                         "set systemReservedCgroup",
		"enforceNodeAllocatable: [system-reserved-compressible]\nkubeReservedCgroup: /kube\n": "set systemReservedCgroup",
		cgroups + "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\n":     "can't be used with kube-reserved-compressible",
		cgroups + "enforceNodeAllocatable: [system-reserved-compressible, system-reserved]\n": "can't be used with system-reserved-compressible",
		cgroups + "reservedSystemCPUs: 0-1\n":                                                 "can't be used with systemReservedCgroup",
		"reservedSystemCPUs: first\n":                                                         "not a list of processors",
		"kubeletCgroups: /\n":                                                                 "below the top",
		"kubeletCgroups: /a/../../b\n":                                                        "below the top",
		"systemReserved: {disk: 1Gi}\n":                                                       "want amounts of",
	} {
		if _, err := Load("/r", Flags{}, []byte(header+text), machine); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestReservedProcessorsReplaceTheAmount(t *testing.T) {
	c, err := Load("/r", Flags{}, []byte(header+"reservedSystemCPUs: 0-1,4\nkubeReserved: {cpu: 100m, memory: 1Gi}\nsystemReserved: {cpu: 200m}\n"), machine)
	if err != nil {
		t.Fatal(err)
	}
	if cpu, memory := c.Reserved["cpu"], c.Reserved["memory"]; cpu.String() != "3" || memory.String() != "1Gi" || c.Cgroups.ReservedCPUs != "0-1,4" {
		t.Errorf("got %+v", c.Reserved)
	}
	k := c.Kubelet()
	if k.ReservedSystemCPUs != "0-1,4" || k.KubeReserved["memory"] != "1Gi" || k.SystemReserved["cpu"] != "3" {
		t.Errorf("it is shown as %+v", k)
	}
}

func TestCgroupsOfDaemons(t *testing.T) {
	c, err := Load("/r", Flags{}, []byte(header+"kubeletCgroups: kube.slice/berth\nsystemCgroups: /system\nkubeReservedCgroup: /kube.slice\nkubeReserved: {memory: 1Gi}\n"), machine)
	if err != nil || c.Cgroups.KubeletCgroups != "/kube.slice/berth" || c.Cgroups.SystemCgroups != "/system" || c.Cgroups.KubeReserved.Cgroup != "/kube.slice" || c.Cgroups.KubeReserved.Enforce != EnforceNothing || len(c.NotHonoured) > 0 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestSwapAndMemoryQoS(t *testing.T) {
	for text, want := range map[string]Cgroups{
		"":                                     {},
		"memorySwap: {swapBehavior: NoSwap}\n": {},
		"memorySwap: {swapBehavior: LimitedSwap}\n": {LimitedSwap: true},
		"memoryThrottlingFactor: 0.5\n":             {}, // without the gate, it says nothing
		"featureGates: {MemoryQoS: true}\n":         {MemoryQoS: &MemoryQoS{ThrottlingFactor: 0.9}},
		"featureGates: {AllAlpha: true}\n":          {MemoryQoS: &MemoryQoS{ThrottlingFactor: 0.9}},
		"featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.5\nmemoryReservationPolicy: TieredReservation\n": {MemoryQoS: &MemoryQoS{ThrottlingFactor: 0.5, Tiered: true}},
	} {
		c, err := Load("/r", Flags{}, []byte(header+text), machine)
		if err != nil || !reflect.DeepEqual(c.Cgroups, want) {
			t.Errorf("%q: got %+v, %v", text, c, err)
		}
	}
	for text, says := range map[string]string{
		"memorySwap: {swapBehavior: UnlimitedSwap}\n":  "want NoSwap or LimitedSwap",
		"memoryThrottlingFactor: 0\n":                  "greater than 0",
		"memoryThrottlingFactor: 1.5\n":                "not greater than 1",
		"memoryReservationPolicy: TieredReservation\n": "needs the feature gate MemoryQoS",
		"memoryReservationPolicy: All\n":               "want None or TieredReservation",
	} {
		if _, err := Load("/r", Flags{}, []byte(header+text), machine); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
