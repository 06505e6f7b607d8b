package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/runtime/render"
)

// machine is a directory with the files of cgroups. The kernel would make the files of a cgroup
// with it; here tests make them first.
type machine struct {
	t    *testing.T
	dir  string
	tree *Tree
}

func v1Machine(t *testing.T, controllers ...string) *machine {
	m := &machine{t: t, dir: t.TempDir(), tree: &Tree{}}
	for _, c := range controllers {
		m.tree.hierarchies = append(m.tree.hierarchies, hierarchy{mount: filepath.Join(m.dir, c), controllers: []string{"rw", c}})
		mkdir(t, m.dir, c)
	}
	return m
}

func v2Machine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir(), tree: &Tree{}}
	m.tree.hierarchies = []hierarchy{{mount: m.dir, v2: true}}
	return m
}

// has makes files, with what is in them.
func (m *machine) has(files map[string]string) {
	m.t.Helper()
	for name, text := range files {
		mkdir(m.t, filepath.Dir(filepath.Join(m.dir, name)))
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) expect(files map[string]string) {
	m.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil || string(text) != files[name] {
			m.t.Errorf("%s has %q, %v, want %q", name, text, err, files[name])
		}
	}
}

func TestLimitsOfV1(t *testing.T) {
	m := v1Machine(t, "cpu", "memory", "pids", "hugetlb", "freezer")
	m.has(map[string]string{
		"cpu/berth/poda/cpu.shares": "", "cpu/berth/poda/cpu.cfs_quota_us": "", "cpu/berth/poda/cpu.cfs_period_us": "",
		"memory/berth/poda/memory.limit_in_bytes": "", "pids/berth/poda/pids.max": "",
		"hugetlb/berth/poda/hugetlb.2MB.limit_in_bytes": "", "hugetlb/berth/poda/hugetlb.1GB.limit_in_bytes": "", "hugetlb/berth/poda/hugetlb.2MB.rsvd.limit_in_bytes": "x",
	})
	if err := m.tree.limit("/berth/poda", limitsOf(render.Cgroup{Shares: 512, Quota: 5000, Period: 10000, Memory: 1 << 20, Pids: 7, HugePages: map[string]int64{"2MB": 4 << 20}})); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{
		"cpu/berth/poda/cpu.shares": "512", "cpu/berth/poda/cpu.cfs_quota_us": "5000", "cpu/berth/poda/cpu.cfs_period_us": "10000",
		"memory/berth/poda/memory.limit_in_bytes": "1048576", "pids/berth/poda/pids.max": "7",
		"hugetlb/berth/poda/hugetlb.2MB.limit_in_bytes": "4194304", "hugetlb/berth/poda/hugetlb.1GB.limit_in_bytes": "0", "hugetlb/berth/poda/hugetlb.2MB.rsvd.limit_in_bytes": "x",
	})

	// when there are no limits any more, then they are taken away
	if err := m.tree.limit("/berth/poda", limitsOf(render.Cgroup{Shares: 2})); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{
		"cpu/berth/poda/cpu.shares": "2", "cpu/berth/poda/cpu.cfs_quota_us": "-1",
		"memory/berth/poda/memory.limit_in_bytes": "-1", "pids/berth/poda/pids.max": "max", "hugetlb/berth/poda/hugetlb.2MB.limit_in_bytes": "0",
	})
}

func TestLimitsOfV2(t *testing.T) {
	m := v2Machine(t)
	m.has(map[string]string{
		"berth/poda/cpu.weight": "", "berth/poda/cpu.max": "", "berth/poda/memory.max": "", "berth/poda/pids.max": "",
		"berth/poda/hugetlb.2MB.max": "", "berth/poda/hugetlb.2MB.rsvd.max": "x",
	})
	if !m.tree.V2() {
		t.Fatal("it does not look like v2")
	}
	if err := m.tree.limit("/berth/poda", limitsOf(render.Cgroup{Shares: 1024, Quota: 5000, Period: 10000, Memory: 1 << 20, Pids: 7, HugePages: map[string]int64{"2MB": 4 << 20}})); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{
		"berth/poda/cpu.weight": "100", "berth/poda/cpu.max": "5000 10000", "berth/poda/memory.max": "1048576", "berth/poda/pids.max": "7",
		"berth/poda/hugetlb.2MB.max": "4194304", "berth/poda/hugetlb.2MB.rsvd.max": "x",
	})
	if err := m.tree.limit("/berth/poda", limitsOf(render.Cgroup{Shares: 2})); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{
		"berth/poda/cpu.weight": "1", "berth/poda/cpu.max": "max 100000", "berth/poda/memory.max": "max", "berth/poda/pids.max": "max",
	})

	// A kernel without a controller has none of its files.
	m.has(map[string]string{"berth/podb/cpu.weight": ""})
	if err := m.tree.limit("/berth/podb", limitsOf(render.Cgroup{Shares: 2, Memory: 5})); err != nil {
		t.Errorf("without controllers: %v", err)
	}
}

func TestWeights(t *testing.T) {
	last := int64(0)
	for _, shares := range []int64{-1, 0, 2, 3, 102, 512, 1024, 10240, 262143, 262144, 1 << 40} {
		got := weight(shares)
		if got < max(1, last) || got > 10000 {
			t.Errorf("%d shares weigh %d, after %d", shares, got, last)
		}
		last = got
	}
	if weight(2) != 1 || weight(1024) != 100 || weight(262144) != 10000 {
		t.Errorf("least %d, default %d, most %d", weight(2), weight(1024), weight(262144))
	}
}

func TestControllersArePassedDown(t *testing.T) {
	m := v2Machine(t)
	m.has(map[string]string{
		"cgroup.controllers": "cpuset cpu io memory pids rdma\n", "cgroup.subtree_control": "cpuset cpu io memory\n",
		"berth/cgroup.controllers": "memory pids\n", "berth/cgroup.subtree_control": "memory pids\n",
	})
	if err := m.tree.Make("/berth/poda"); err != nil {
		t.Fatal(err)
	}
	m.expect(map[string]string{"cgroup.subtree_control": "+pids", "berth/cgroup.subtree_control": "memory pids\n"})
	if !exists(t, m.dir, "berth/poda") {
		t.Error("it is not there")
	}
}

func TestACpusetIsTakenOver(t *testing.T) {
	m := v1Machine(t, "cpuset", "cpu")
	m.has(map[string]string{
		"cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n",
		"cpuset/berth/cpuset.cpus": "\n", "cpuset/berth/cpuset.mems": "\n",
		"cpuset/berth/poda/cpuset.cpus": "1\n", "cpuset/berth/poda/cpuset.mems": "\n",
	})
	for range 2 {
		if err := m.tree.Make("/berth/poda"); err != nil {
			t.Fatal(err)
		}
	}
	m.expect(map[string]string{"cpuset/berth/cpuset.cpus": "0-1", "cpuset/berth/cpuset.mems": "0", "cpuset/berth/poda/cpuset.cpus": "1\n", "cpuset/berth/poda/cpuset.mems": "0"})
	if !exists(t, m.dir, "cpu/berth/poda") {
		t.Error("it is not in every hierarchy")
	}
}

func TestDangerousPathsAreNotMadeLimitedOrKilled(t *testing.T) {
	m := v1Machine(t, "cpu")
	for _, path := range []string{"", "/", "berth", "/../x", "/berth/../.."} {
		_, killed := m.tree.kill(path)
		for what, err := range map[string]error{"made": m.tree.Make(path), "limited": m.tree.limit(path, limitsOf(render.Cgroup{})), "killed": killed} {
			if err == nil || !strings.Contains(err.Error(), "cgroup path") {
				t.Errorf("%q was %s: %v", path, what, err)
			}
		}
	}
}
