package cri

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// used returns the stats of a container that uses every resource, in CRI's form and in ours.
func used() (*runtimeapi.ContainerStats, ContainerStats) {
	stats := &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: "c1", Labels: labels("uid", "app")},
		Cpu:        &runtimeapi.CpuUsage{Timestamp: moment(1), UsageCoreNanoSeconds: amount(10), UsageNanoCores: amount(11)},
		Memory: &runtimeapi.MemoryUsage{
			Timestamp: moment(2), WorkingSetBytes: amount(20), AvailableBytes: amount(21), UsageBytes: amount(22), RssBytes: amount(23),
			PageFaults: amount(24), MajorPageFaults: amount(25),
		},
		Swap:          &runtimeapi.SwapUsage{Timestamp: moment(3), SwapUsageBytes: amount(30), SwapAvailableBytes: amount(31)},
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: moment(4), UsedBytes: amount(40), InodesUsed: amount(41)},
	}
	want := ContainerStats{
		ID: "c1", Name: "app",
		CPU: CPU{At: time.Unix(0, moment(1)), Total: new(uint64(10)), Rate: new(uint64(11))},
		Memory: Memory{
			At: time.Unix(0, moment(2)), WorkingSet: new(uint64(20)), Available: new(uint64(21)), Usage: new(uint64(22)), RSS: new(uint64(23)),
			PageFaults: new(uint64(24)), MajorPageFaults: new(uint64(25)),
		},
		Swap:     Swap{At: time.Unix(0, moment(3)), Used: new(uint64(30)), Available: new(uint64(31))},
		Writable: Filesystem{At: time.Unix(0, moment(4)), Used: new(uint64(40)), Inodes: new(uint64(41))},
	}
	return stats, want
}

func TestStatsHasTheUsageOfEachPod(t *testing.T) {
	container, want := used()
	eth0 := &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: amount(1), RxErrors: amount(2), TxBytes: amount(3), TxErrors: amount(4)}
	s := &server{answers: map[string]proto.Message{"ListPodSandboxStats": &runtimeapi.ListPodSandboxStatsResponse{Stats: []*runtimeapi.PodSandboxStats{
		{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s2", Labels: labels("uid-2", "")}},
		{Attributes: &runtimeapi.PodSandboxAttributes{Id: "foreign"}},
		{
			Attributes: &runtimeapi.PodSandboxAttributes{Id: "s1", Labels: labels("uid-1", "")},
			Linux: &runtimeapi.LinuxPodSandboxStats{
				Cpu: container.Cpu, Memory: container.Memory, Process: &runtimeapi.ProcessUsage{ProcessCount: amount(5)},
				Network:    &runtimeapi.NetworkUsage{Timestamp: moment(9), DefaultInterface: eth0, Interfaces: []*runtimeapi.NetworkInterfaceUsage{{Name: "eth1"}}},
				Containers: []*runtimeapi.ContainerStats{container},
			},
		},
	}}}}
	got, err := clientOf(t, s).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantAll := []PodStats{
		{
			UID: "uid-1", Namespace: "shop", Name: "web", SandboxID: "s1", CPU: want.CPU, Memory: want.Memory, Processes: new(uint64(5)),
			Network: Network{
				At:         time.Unix(0, moment(9)),
				Default:    &Interface{Name: "eth0", RxBytes: new(uint64(1)), RxErrors: new(uint64(2)), TxBytes: new(uint64(3)), TxErrors: new(uint64(4))},
				Interfaces: []Interface{{Name: "eth1"}},
			},
			Containers: []ContainerStats{want},
		},
		{UID: "uid-2", Namespace: "shop", Name: "web", SandboxID: "s2"},
	}
	if !reflect.DeepEqual(got, wantAll) {
		t.Errorf("got  %+v\nwant %+v", got, wantAll)
	}
}

func TestContainerStatsHasTheUsageOfOneContainer(t *testing.T) {
	container, want := used()
	s := &server{answers: map[string]proto.Message{"ContainerStats": &runtimeapi.ContainerStatsResponse{Stats: container}}}
	got, err := clientOf(t, s).ContainerStats(t.Context(), "c1")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if id := request[*runtimeapi.ContainerStatsRequest](t, s, "ContainerStats").ContainerId; id != "c1" {
		t.Errorf("asked for %q", id)
	}
}
