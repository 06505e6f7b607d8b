package cgroup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// machines are two that count the same, each by its own version.
func machines(t *testing.T) map[string]*Counters {
	t.Helper()
	const dir = "testdata/counters/"
	tables := map[string]string{
		"v1": line("cgroup", dir+"v1/cpu", "rw,cpu") + line("cgroup", dir+"v1/cpuacct", "rw,cpuacct") +
			line("cgroup", dir+"v1/memory", "rw,memory") + line("cgroup", dir+"v1/pids", "rw,pids") + line("cgroup", dir+"v1/blkio", "rw,blkio") +
			line("cgroup2", dir+"v1/unified", "rw"), // there, and without controllers
		"v2": line("tmpfs", "/tmp", "rw") + line("cgroup2", dir+"v2", "rw,nsdelegate"),
	}
	out := map[string]*Counters{}
	for version, table := range tables {
		c, err := NewCounters(tableOf(t, table))
		if err != nil {
			t.Fatal(err)
		}
		out[version] = c
	}
	return out
}

func line(kind, mount, options string) string {
	return fmt.Sprintf("31 23 0:28 / %s rw,relatime - %s %s %s\n", mount, kind, kind, options)
}

func TestUsageIsTheSameInBothVersions(t *testing.T) {
	nanoseconds := map[string]uint64{"v1": 123456789, "v2": 123456000}
	for version, c := range machines(t) {
		got := c.Usage("/berth/pod1")

		if got.At.IsZero() {
			t.Errorf("%s: no time", version)
		}
		got.At = time.Time{}
		want := Usage{CPU: new(nanoseconds[version]), Processes: new(uint64(7)), Memory: &Memory{
			Usage: 10_000_000, WorkingSet: 9_000_000, RSS: 5_000_000, Cache: 4_000_000, Mapped: 600, ActiveFile: 3_000_000, InactiveFile: 1_000_000, PageFaults: 80, MajorPageFaults: 9,
			Limit: new(uint64(20_000_000)), Swap: new(uint64(7000)), SwapLimit: new(uint64(5_000_000)),
		}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, memory %+v; want %+v, memory %+v", version, got, got.Memory, want, want.Memory)
		}
	}
}

func TestDetailIsTheSameInBothVersions(t *testing.T) {
	shares := map[string]uint64{"v1": 512, "v2": 500} // a weight is coarser
	system := map[string]uint64{"v1": 20_000_000, "v2": 23_456_000}
	pressures := map[string][3]Pressure{"v2": { // v1 has none
		{
			Some: new(uint64(5000)), Full: new(uint64(1000)),
			SomeShare: PressureShare{Avg10: 1.5, Avg60: 0.25, Avg300: 0.01}, FullShare: PressureShare{Avg10: 0.5},
		}, {Some: new(uint64(6000)), Full: new(uint64(2000)), SomeShare: PressureShare{Avg60: 0.12}}, {Some: new(uint64(7000)), Full: new(uint64(3000)), SomeShare: PressureShare{Avg60: 0.12}},
	}}
	for version, c := range machines(t) {
		got := c.Detail("/berth/pod1")

		pressure := pressures[version]
		want := Detail{
			UserCPU: new(uint64(100_000_000)), SystemCPU: new(system[version]),
			CPUPressure: pressure[0], MemoryPressure: pressure[1], IOPressure: pressure[2],
			Periods: new(uint64(10)), Throttled: new(uint64(3)), ThrottledTime: new(uint64(5000)),
			Bursts: new(uint64(4)), BurstTime: new(uint64(6000)),
			OOMKills: new(uint64(2)), MemoryPeak: new(uint64(12_000_000)), MemoryLimited: new(uint64(5)), KernelMemory: new(uint64(10)),
			Reservation: new(uint64(8_000_000)), MaxThreads: new(uint64(100)),
			Quota: new(uint64(50_000)), Period: new(uint64(100_000)), Shares: new(shares[version]),
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got shares %v in %+v", version, *got.Shares, got)
		}
	}
}

func TestDisksAreTheSameInBothVersions(t *testing.T) {
	costs := map[string]*DiskCost{"v2": {Usage: 40, Wait: 30, Debt: 20, Delay: 10}} // v1 has none
	for version, c := range machines(t) {
		got := c.Disks("/berth/pod1")

		want := []Disk{
			{Device: "8:0", ReadBytes: 4096, WrittenBytes: 8192, Reads: 1, Writes: 2, Cost: costs[version]},
			{Device: "253:1", WrittenBytes: 512, Writes: 1},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", version, got, want)
		}
	}
}

func TestNoLimitIsNone(t *testing.T) {
	for version, c := range machines(t) {
		usage, detail := c.Usage("/berth/free"), c.Detail("/berth/free")

		if usage.Memory == nil || usage.Memory.Limit != nil || usage.Memory.Swap != nil || usage.Memory.SwapLimit != nil {
			t.Errorf("%s: memory is %+v", version, usage.Memory)
		}
		if usage.Memory.WorkingSet != 0 {
			t.Errorf("%s: more was inactive than used, and the working set is %d", version, usage.Memory.WorkingSet)
		}
		if detail.Quota != nil || detail.Period == nil || detail.Reservation != nil || detail.MaxThreads != nil {
			t.Errorf("%s: detail is %+v", version, detail)
		}
	}
}

func TestWhatIsGoneUsesNothing(t *testing.T) {
	for version, c := range machines(t) {
		usage := c.Usage("/berth/gone")

		if usage.CPU != nil || usage.Memory != nil || usage.Processes != nil {
			t.Errorf("%s: got %+v", version, usage)
		}
		if d := c.Detail("/berth/gone"); d != (Detail{}) {
			t.Errorf("%s: got %+v", version, d)
		}
		if d := c.Disks("/berth/gone"); len(d) != 0 {
			t.Errorf("%s: got %+v", version, d)
		}
		if pid := c.Process("/berth/gone"); pid != 0 {
			t.Errorf("%s: got process %d", version, pid)
		}
		if children, err := c.Children("/berth/gone"); len(children) != 0 || err != nil {
			t.Errorf("%s: got %v, %v", version, children, err)
		}
	}
}

func TestChildrenAndProcesses(t *testing.T) {
	for version, c := range machines(t) {
		children, err := c.Children("/berth/pod1")
		if err != nil || len(children) != 1 || children[0] != "aaaa" {
			t.Errorf("%s: children are %v, %v", version, children, err)
		}
		if pid := c.Process("/berth/pod1"); pid != 4711 {
			t.Errorf("%s: got process %d", version, pid)
		}
		if pids := c.Processes("/berth/pod1", 1); !slices.Equal(pids, []int{4711}) {
			t.Errorf("%s: got processes %v", version, pids)
		}
	}
}

func TestTheRootOfV2CountsOnlyTime(t *testing.T) {
	usage := machines(t)["v2"].Usage("/")

	if usage.CPU == nil || *usage.CPU != 5_000_000 || usage.Memory != nil {
		t.Errorf("got %+v", usage)
	}
}

func TestAMachineWithoutCounters(t *testing.T) {
	_, err := NewCounters(tableOf(t, line("cgroup2", "testdata/counters/v1/unified", "rw")))

	if err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkUsage(b *testing.B) {
	c, err := OpenCounters()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Usage("/")
	}
}
