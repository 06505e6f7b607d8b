//go:build real

package pods

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/cgroup"
	"berth/test/real/kit"
)

// vanishTimeout has room for the interval at which cgroups are looked at, the stop of a pod, and its start.
const vanishTimeout = 3 * kit.StartTimeout

func TestAPodWhoseCgroupVanishedComesBack(t *testing.T) {
	t.Parallel()
	// given a pod
	n := kit.NewNode(t)
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	before := n.WaitRunning("web")["web"]
	name := "pod" + string(before.UID)
	dirs := func() []string {
		return kit.Filter(n.Cgroups(), func(path string) bool { return strings.Contains(path, name) })
	}

	// when its processes are moved to the top of each hierarchy, and its cgroup is removed
	found := dirs()
	for _, dir := range found {
		top, _, _ := strings.Cut(dir, "/"+n.UniqueName)
		for _, pid := range strings.Fields(readFile(t, dir, "cgroup.procs")) {
			if err := os.WriteFile(filepath.Join(top, "cgroup.procs"), []byte(pid), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.Reverse(found) // children first
	for _, dir := range found {
		removeCgroupDir(n, dir)
	}

	// then that is noticed, although no container has ended, and it runs in a cgroup again
	after := n.WaitPod("web", "to be made anew", vanishTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && containerID(p) != containerID(before))
	})
	inCgroup := func(dir string) bool { return strings.HasSuffix(dir, "/"+containerID(after)) }
	if got := dirs(); !slices.ContainsFunc(got, inCgroup) {
		t.Errorf("its cgroups are %v", got)
	}
}

// removeCgroupDir removes a cgroup whose processes have just left it.
func removeCgroupDir(n *kit.Node, dir string) {
	n.T.Helper()
	n.Wait("removal of "+dir, kit.StartTimeout, func() string {
		if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err.Error()
		}
		return ""
	})
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestCgroupsOfDaemons(t *testing.T) {
	t.Parallel()
	// given a cgroup for the daemons of the machine, and one that the agent is to make for itself
	n := kit.NewNode(t)
	daemons, own := "/"+n.UniqueName+"-daemons", "/"+n.UniqueName+"-agent"
	tree, err := cgroup.Open()
	if err != nil {
		t.Fatal(err)
	}
	settings := func(of string) string {
		return fmt.Sprintf("enforceNodeAllocatable: [pods, system-reserved]\nsystemReservedCgroup: %s\nsystemReserved: {cpu: 500m, memory: 64Mi}\nkubeletCgroups: %s\n", of, own)
	}
	if err := tree.Make(daemons); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.Agent != nil {
			n.Agent.Kill()
		}
		for _, dir := range kit.Filter(n.Cgroups(), func(path string) bool { return strings.HasSuffix(path, daemons) || strings.HasSuffix(path, own) }) {
			for _, pid := range strings.Fields(readFile(t, dir, "cgroup.procs")) { // containerd, which the agent has started
				if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"), []byte(pid), 0o644); err != nil {
					t.Error(err)
				}
			}
			removeCgroupDir(n, dir)
		}
	})

	// when the agent starts, then the daemons have what is reserved for them, and the agent is where it should be
	n.Configure(settings(daemons))
	n.Start()
	limits := map[string]string{"cpu" + daemons + "/cpu.shares": "512", "memory" + daemons + "/memory.limit_in_bytes": "67108864"}
	if isCgroupV2() {
		limits = map[string]string{daemons + "/cpu.weight": "59", daemons + "/memory.max": "67108864"}
	}
	for file, want := range limits {
		if got := readFile(t, "/sys/fs/cgroup", file); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	if got := readFile(t, "/proc", fmt.Sprint(n.Agent.Cmd.Process.Pid), "cgroup"); !strings.Contains(got, own+"\n") && !strings.HasSuffix(got, own) {
		t.Errorf("the agent is in %s", got)
	}
	n.Stop()

	// when the cgroup of the daemons does not exist, then the agent ends, and says so
	n.Configure(settings(daemons + "-missing"))
	n.Launch(n.RunArgs()...)
	n.Wait("the agent to end", kit.StartTimeout, func() string {
		select {
		case <-n.Agent.Ended:
			return ""
		default:
			return "its end"
		}
	})
	if log := kit.Tail(n.LogFile(), 4<<10); n.Agent.Cmd.ProcessState.ExitCode() == 0 || !strings.Contains(log, "there is no cgroup "+daemons+"-missing") {
		t.Errorf("it ended with code %d: %s", n.Agent.Cmd.ProcessState.ExitCode(), log)
	}
}
