package cgroup

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/runtime/render"
)

func TestDaemonsAreLimitedToWhatIsReserved(t *testing.T) {
	m := v1Machine(t, "cpu", "memory", "pids", "hugetlb")
	m.has(map[string]string{
		"cpu/kube/cpu.shares": "1024", "cpu/kube/cpu.cfs_quota_us": "-1", "memory/kube/memory.limit_in_bytes": "", "pids/kube/pids.max": "max",
		"hugetlb/kube/hugetlb.2MB.limit_in_bytes": "7",
	})
	pods := newPods(t, m.tree)

	// when only some are given, then the others stay
	if err := pods.LimitDaemons(t.Context(), "/kube", render.Cgroup{Shares: 512}); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{"cpu/kube/cpu.shares": "512", "cpu/kube/cpu.cfs_quota_us": "-1", "memory/kube/memory.limit_in_bytes": "", "pids/kube/pids.max": "max"})
	if err := pods.LimitDaemons(t.Context(), "/kube", render.Cgroup{Shares: 256, Memory: 4096, Pids: 9}); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{
		"cpu/kube/cpu.shares": "256", "memory/kube/memory.limit_in_bytes": "4096", "pids/kube/pids.max": "9", "hugetlb/kube/hugetlb.2MB.limit_in_bytes": "7",
	})

	// a cgroup that does not exist is an error that names it
	if err := pods.LimitDaemons(t.Context(), "/systems", render.Cgroup{Shares: 2}); err == nil || !strings.Contains(err.Error(), "there is no cgroup /systems") {
		t.Errorf("got %v", err)
	}
}

func TestDaemonsInASlice(t *testing.T) {
	p, f, m := slicedPods(t)
	m.has(map[string]string{"runtime.slice/runtime-kube.slice/cpu.weight": "", "runtime.slice/runtime-kube.slice/memory.current": "5000", "runtime.slice/runtime-kube.slice/memory.stat": "inactive_file 1000\n"})
	for _, given := range []string{"/runtime.slice/runtime-kube.slice", "runtime-kube.slice", "/runtime-kube"} {
		if err := p.LimitDaemons(t.Context(), given, render.Cgroup{Shares: 1024, Memory: 4000}); err != nil {
			t.Errorf("%s: %v", given, err)
		}
		if got := f.called(); !slices.Equal(got, []string{"set runtime-kube.slice CPUWeight=100 MemoryMax=4000"}) {
			t.Errorf("%s: got %q", given, got)
		}
	}
	m.expect(map[string]string{"runtime.slice/runtime-kube.slice/cpu.weight": "100"})

	// a limit below the memory in use would kill daemons
	if err := p.LimitDaemons(t.Context(), "runtime-kube.slice", render.Cgroup{Memory: 3999}); err == nil || !strings.Contains(err.Error(), "4000 are in use") || len(f.called()) > 0 {
		t.Errorf("got %v", err)
	}
}

func TestAProcessEntersACgroup(t *testing.T) {
	m := v1Machine(t, "cpu", "memory", "name=systemd")
	m.has(map[string]string{"cpu/kube/agent/cgroup.procs": "", "memory/kube/agent/cgroup.procs": "", "name=systemd/kube/agent/cgroup.procs": ""})
	if err := m.tree.Enter("/kube/agent", 4711); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{"cpu/kube/agent/cgroup.procs": "4711", "memory/kube/agent/cgroup.procs": "4711", "name=systemd/kube/agent/cgroup.procs": ""})
	if err := m.tree.Enter("/", 4711); err == nil {
		t.Error("it moved to the top")
	}
}
