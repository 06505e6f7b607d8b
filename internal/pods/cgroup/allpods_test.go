package cgroup

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"berth/internal/runtime/render"
)

// share holds the limits of all pods together, which a test may change.
type share struct {
	render.Cgroup
	err error
}

func (s *share) now() (render.Cgroup, error) { return s.Cgroup, s.err }

func limitedPods(t *testing.T, tree *Tree, all *share) (*Pods, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	p, err := NewPods(PodsConfig{Tree: tree, Owner: owner(t), All: all.now, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p, log
}

func makePod(t *testing.T, p *Pods) {
	t.Helper()
	if err := p.Make(t.Context(), render.Cgroup{Name: "/berth/poda", Shares: 2}); err != nil {
		t.Fatal(err)
	}
}

func TestAllPodsOfV1AreLimitedTogether(t *testing.T) {
	// given a machine on which an administrator has limited the processors for pods
	m := v1Machine(t, "cpu", "memory", "pids", "hugetlb")
	m.has(map[string]string{
		"cpu/berth/cpu.shares": "1024", "cpu/berth/cpu.cfs_quota_us": "150000", "cpu/berth/cpu.cfs_period_us": "100000",
		"memory/berth/memory.limit_in_bytes": "", "pids/berth/pids.max": "max",
		"hugetlb/berth/hugetlb.2MB.limit_in_bytes": "", "hugetlb/berth/hugetlb.1GB.limit_in_bytes": "",
		"cpu/berth/poda/cpu.shares": "", "cpu/berth/poda/cpu.cfs_quota_us": "", "memory/berth/poda/memory.limit_in_bytes": "", "pids/berth/poda/pids.max": "",
	})
	all := &share{Cgroup: render.Cgroup{Name: "/berth", Shares: 2048, Memory: 8 << 30, Pids: 1000, HugePages: map[string]int64{"2MB": 4 << 20}}}
	pods, log := limitedPods(t, m.tree, all)

	// then all pods together have what the machine has for them
	pods.LimitAll(t.Context())
	want := map[string]string{
		"cpu/berth/cpu.shares": "2048", "cpu/berth/cpu.cfs_quota_us": "150000", "memory/berth/memory.limit_in_bytes": "8589934592", "pids/berth/pids.max": "1000",
		"hugetlb/berth/hugetlb.2MB.limit_in_bytes": "4194304", "hugetlb/berth/hugetlb.1GB.limit_in_bytes": "0",
	}
	m.expect(want)

	// when that is the same as before, then nothing is written
	m.has(map[string]string{"cpu/berth/cpu.shares": "as it was"})
	makePod(t, pods)
	m.expect(map[string]string{"cpu/berth/cpu.shares": "as it was"})

	// when the machine gets huge pages, then a pod that comes for them finds them
	all.HugePages = map[string]int64{"2MB": 4 << 20, "1GB": 1 << 30}
	makePod(t, pods)
	want["hugetlb/berth/hugetlb.1GB.limit_in_bytes"] = "1073741824"
	m.expect(want)
	if log.Len() > 0 {
		t.Errorf("it complains: %s", log)
	}
}

func TestAllPodsOfV2AreLimitedTogether(t *testing.T) {
	m := v2Machine(t)
	m.has(map[string]string{
		"cgroup.controllers": "", "cgroup.subtree_control": "", "berth/cgroup.controllers": "", "berth/cgroup.subtree_control": "",
		"berth/cpu.weight": "100", "berth/cpu.max": "50000 100000", "berth/memory.max": "max", "berth/pids.max": "max", "berth/hugetlb.2MB.max": "max",
		"berth/memory.current": "5000", "berth/memory.stat": "inactive_file 2000\n",
	})
	all := &share{Cgroup: render.Cgroup{Name: "/berth", Shares: 1024, Memory: 2999, Pids: 1000}}
	pods, log := limitedPods(t, m.tree, all)

	// when pods use more memory than they may have now, then the kernel would kill some
	// of them: that limit waits
	for range 2 {
		pods.LimitAll(t.Context())
	}
	m.expect(map[string]string{
		"berth/cpu.weight": "100", "berth/cpu.max": "50000 100000", "berth/memory.max": "max", "berth/pids.max": "1000", "berth/hugetlb.2MB.max": "0",
	})
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "3000") {
		t.Errorf("it is reported as %s", got)
	}

	// when they use less, or what they use can be taken from them, then it is set
	m.has(map[string]string{"berth/memory.stat": "inactive_file 2001\n"})
	makePod(t, pods)
	m.expect(map[string]string{"berth/memory.max": "2999"})
}

func TestPodsThatCantBeLimitedTogetherRunAllTheSame(t *testing.T) {
	// given a cgroup that others keep from us, as in a container without rights
	m := v1Machine(t, "cpu", "memory")
	m.has(map[string]string{
		"memory/berth/memory.limit_in_bytes": "", "memory/berth/poda/memory.limit_in_bytes": "", "cpu/berth/poda/cpu.shares": "", "cpu/berth/poda/cpu.cfs_quota_us": "",
	})
	all := &share{Cgroup: render.Cgroup{Name: "/berth", Shares: 2048, Memory: 1 << 30}}
	pods, log := limitedPods(t, m.tree, all)

	// then it is said once, and the pod has its cgroup
	for range 3 {
		makePod(t, pods)
	}
	m.expect(map[string]string{"cpu/berth/poda/cpu.shares": "2", "memory/berth/memory.limit_in_bytes": "1073741824"})
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "cpu.shares") {
		t.Errorf("it is reported as %s", got)
	}

	// when it can be done, then it is, and what goes wrong later is said again
	m.has(map[string]string{"cpu/berth/cpu.shares": ""})
	makePod(t, pods)
	m.expect(map[string]string{"cpu/berth/cpu.shares": "2048"})
	all.err = errors.New("nothing is left")
	makePod(t, pods)
	if got := log.String(); strings.Count(got, "level=WARN") != 2 || !strings.Contains(got, "nothing is left") {
		t.Errorf("it is reported as %s", got)
	}
}

func TestTheCgroupOfAllPodsIsMade(t *testing.T) {
	m := v1Machine(t, "pids")
	pods, log := limitedPods(t, m.tree, &share{Cgroup: render.Cgroup{Name: "/berth", Shares: 2}})
	pods.LimitAll(t.Context())
	if !exists(t, m.dir, "pids/berth") || !strings.Contains(log.String(), "pids.max") { // which the kernel would have made
		t.Errorf("it is not there, or has no limit: %s", log)
	}
}

func TestWhereSwapCanBeLimited(t *testing.T) {
	m := v2Machine(t)
	m.has(map[string]string{"berth/memory.max": "max"})
	if m.tree.LimitsSwap("/berth") {
		t.Error("a kernel that does not count swap can limit it")
	}
	m.has(map[string]string{"berth/memory.swap.max": "max"})
	if !m.tree.LimitsSwap("/berth") {
		t.Error("it can't be limited")
	}
	v1 := v1Machine(t, "memory")
	v1.has(map[string]string{"memory/berth/memory.swap.max": "max"})
	if v1.tree.LimitsSwap("/berth") {
		t.Error("v1 has no limit for swap alone")
	}
}

func TestLimitsHugePages(t *testing.T) {
	v2 := v2Machine(t)
	for name, test := range map[string]struct {
		tree *Tree
		want bool
	}{
		"v1 with": {v1Machine(t, "memory", "hugetlb").tree, true}, "v1 without": {v1Machine(t, "memory").tree, false},
		"v2 without": {v2.tree, false},
	} {
		if got := test.tree.LimitsHugePages(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	v2.has(map[string]string{"cgroup.controllers": "cpu memory hugetlb pids\n"})
	if !v2.tree.LimitsHugePages() {
		t.Error("v2 with: false")
	}
}

func TestOnlyASliceIsGivenItsProcessors(t *testing.T) {
	m := v2Machine(t)
	m.has(map[string]string{"cgroup.controllers": "", "cgroup.subtree_control": "", "berth/cpu.weight": "", "berth/cpuset.cpus": ""})
	pods, log := limitedPods(t, m.tree, &share{Cgroup: render.Cgroup{Name: "/berth", Shares: 1024, CPUs: "0-1"}})
	pods.LimitAll(t.Context())
	m.expect(map[string]string{"berth/cpu.weight": "100", "berth/cpuset.cpus": ""})
	if log.Len() > 0 {
		t.Errorf("it was logged: %s", log)
	}
}
