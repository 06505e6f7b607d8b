package cgroup

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
	"berth/internal/runtime/render"
)

func owner(t *testing.T) roots.Owner {
	t.Helper()
	return rootstest.Owner(t, roots.Claim{CgroupRoot: "/berth"})
}

func newPods(t *testing.T, tree *Tree) *Pods {
	t.Helper()
	p, err := NewPods(PodsConfig{Tree: tree, Owner: owner(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAClassGetsAsMuchAsItsPods(t *testing.T) {
	m := v1Machine(t, "cpu")
	for _, dir := range []string{"burstable", "besteffort", "burstable/poda", "burstable/podb", "besteffort/podc", "podd"} {
		m.has(map[string]string{"cpu/berth/" + dir + "/cpu.shares": "", "cpu/berth/" + dir + "/cpu.cfs_quota_us": ""})
	}
	pods := newPods(t, m.tree)
	burstable := func(want string) {
		t.Helper()
		m.expect(map[string]string{"cpu/berth/burstable/cpu.shares": want})
	}
	for _, c := range []render.Cgroup{
		{Name: "/berth/burstable/poda", Shares: 100},
		{Name: "/berth/burstable/podb", Shares: 200},
		{Name: "/berth/besteffort/podc", Shares: 2},
		{Name: "/berth/podd", Shares: 300},
	} {
		for range 2 { // whatever is said twice counts once
			if err := pods.Make(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	burstable("300")
	m.expect(map[string]string{"cpu/berth/besteffort/cpu.shares": "2", "cpu/berth/podd/cpu.shares": "300"})

	// when one asks for more, and another one goes
	if err := pods.Make(t.Context(), render.Cgroup{Name: "/berth/burstable/poda", Shares: 1000}); err != nil {
		t.Fatal(err)
	}
	burstable("1200")
	if err := os.RemoveAll(filepath.Join(m.dir, "cpu/berth/burstable/podb")); err != nil { // as the kernel would
		t.Fatal(err)
	}
	if err := pods.Remove(t.Context(), "/berth/burstable/podb"); err != nil {
		t.Fatal(err)
	}
	burstable("1000")
}

func TestPodsOfAllClassesAreListed(t *testing.T) {
	m := v1Machine(t, "cpu", "memory")
	mkdir(t, m.dir, "cpu/berth/poda")
	mkdir(t, m.dir, "memory/berth/burstable/podb")
	mkdir(t, m.dir, "cpu/berth/besteffort/podc")
	mkdir(t, m.dir, "cpu/berth/other")
	pods := newPods(t, m.tree)
	got, err := pods.List()
	slices.Sort(got)
	if want := []string{"poda", "podb", "podc"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}

	// when only some are gone, then the classes of the others stay
	for _, path := range []string{"/berth/poda", "/berth/burstable/podb"} {
		if err := pods.Remove(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	if err := pods.RemoveEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(t, m.dir, "cpu/berth/burstable") || exists(t, m.dir, "memory/berth") || !exists(t, m.dir, "cpu/berth/besteffort/podc") {
		t.Error("the wrong ones were removed")
	}
}

func TestWhatIsLeftInACgroupIsKilled(t *testing.T) {
	// given processes in the cgroup of a pod and below it, and one beside it
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	inside, below, beside := start(), start(), start()
	defer func() { _ = beside.Wait() }()
	defer func() { _ = beside.Process.Kill() }()
	pid := func(c *exec.Cmd) string { return strconv.Itoa(c.Process.Pid) + "\n" }
	m := v1Machine(t, "cpu", "freezer")
	m.has(map[string]string{
		"cpu/berth/poda/cgroup.procs": pid(inside), "cpu/berth/poda/c1/cgroup.procs": pid(below), "cpu/berth/podb/cgroup.procs": pid(beside),
		"freezer/berth/poda/cgroup.procs": pid(inside), "freezer/berth/poda/freezer.state": "FROZEN",
	})

	// when it is killed
	killed, err := m.tree.kill("/berth/poda")
	want := []int{inside.Process.Pid, below.Process.Pid}
	slices.Sort(want)
	if err != nil || !slices.Equal(killed, want) {
		t.Fatalf("killed %v, %v, want %v", killed, err, want)
	}

	// then both have ended by it, and the third has not
	for _, c := range []*exec.Cmd{inside, below} {
		_ = c.Wait()
		if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Errorf("it ended by %v", c.ProcessState)
		}
	}
	if err := beside.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
	m.expect(map[string]string{"freezer/berth/poda/freezer.state": "THAWED"})
}

func TestKillRefusesTheAgentItself(t *testing.T) {
	m := v1Machine(t, "cpu")
	m.has(map[string]string{"cpu/berth/poda/cgroup.procs": strconv.Itoa(os.Getpid())})
	if _, err := m.tree.kill("/berth/poda"); err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("got %v", err)
	}
}

func TestV2KillsAllAtOnce(t *testing.T) {
	m := v2Machine(t)
	m.has(map[string]string{"berth/poda/cgroup.procs": "4194303\n", "berth/poda/cgroup.kill": "", "berth/poda/cgroup.freeze": "1"})
	killed, err := m.tree.kill("/berth/poda")
	if err != nil || !slices.Equal(killed, []int{4194303}) {
		t.Errorf("got %v, %v", killed, err)
	}
	m.expect(map[string]string{"berth/poda/cgroup.kill": "1", "berth/poda/cgroup.freeze": "0"})
}

func TestCgroupsOfOthersAreLeftAlone(t *testing.T) {
	m := v1Machine(t, "cpu")
	m.has(map[string]string{"cpu/other/poda/cgroup.procs": "4194303\n", "cpu/berth-2/podb/cgroup.procs": "4194303\n"})
	pods := newPods(t, m.tree)
	for _, path := range []string{"/other/poda", "/berth-2/podb", "/berth", "/berth/../other/poda"} {
		if err := pods.Remove(t.Context(), path); err == nil || !strings.Contains(err.Error(), "left alone") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if got, err := pods.List(); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if !exists(t, m.dir, "cpu/other/poda") || !exists(t, m.dir, "cpu/berth-2/podb") {
		t.Error("the cgroup of another root is gone")
	}
}

// An older version gave all roots the same cgroup. Another root's pod is then known by nothing.
func TestInASharedCgroupNothingIsKilled(t *testing.T) {
	m := v1Machine(t, "cpu")
	m.has(map[string]string{
		"cpu/berth/poda/cgroup.procs": strconv.Itoa(os.Getpid()) + "\n", // a kill of this process would end the test
		"cpu/berth/cpu.shares":        "1024",
	})
	mkdir(t, m.dir, "cpu/berth/podb")
	pods, err := NewPods(PodsConfig{
		Tree: m.tree, Owner: rootstest.Owner(t, roots.Claim{CgroupRoot: "/berth", SharedCgroup: true}), Log: slog.New(slog.DiscardHandler),
		All: func() (render.Cgroup, error) { return render.Cgroup{Name: "/berth", Shares: 2}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	pods.LimitAll(t.Context())
	m.expect(map[string]string{"cpu/berth/cpu.shares": "1024"})
	if got, err := pods.List(); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, path := range []string{"/berth/poda", "/berth/podb"} {
		if err := pods.Remove(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if !exists(t, m.dir, "cpu/berth/poda") || exists(t, m.dir, "cpu/berth/podb") {
		t.Error("the wrong one is gone")
	}
}

func TestOccupied(t *testing.T) {
	m := v1Machine(t, "cpu", "memory")
	m.has(map[string]string{"memory/berth/burstable/poda/c1/cgroup.procs": "1\n", "cpu/berth/podb/cgroup.procs": ""})
	pods := newPods(t, m.tree)
	for name, want := range map[string]bool{"poda": true, "podb": false, "podc": false} {
		if got, err := pods.Occupied(name); err != nil || got != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
