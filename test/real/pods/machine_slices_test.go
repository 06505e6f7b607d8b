//go:build real && machine

package pods

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// drivenRuntime is a containerd whose cgroup driver can be set: the bundled one of a node whose agent is gone.
type drivenRuntime struct {
	*kit.Node
	kill func()
}

func newDrivenRuntime(t *testing.T) *drivenRuntime {
	t.Helper()
	r := &drivenRuntime{Node: kit.NewNode(t)}
	r.Start()
	r.Stop()
	r.kill = func() { kit.KillProcess(t, r.ContainerdPID()) }
	t.Cleanup(func() { r.kill() })
	return r
}

// setDriver restarts the runtime with SystemdCgroup set, or not.
func (r *drivenRuntime) setDriver(systemd bool) {
	r.T.Helper()
	file := filepath.Join(r.Root, "containerd.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		r.T.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "SystemdCgroup = ")
	_, after, _ = strings.Cut(after, "\n")
	if !found {
		r.T.Fatalf("no driver is set in %s", text)
	}
	r.ReplaceFile(file, []byte(fmt.Sprintf("%sSystemdCgroup = %t\n%s", before, systemd, after)))
	r.kill()
	libexec := filepath.Join(filepath.Dir(r.Program), "libexec")
	cmd := exec.Command(filepath.Join(libexec, "containerd"), "--config", file)
	cmd.Env = append(os.Environ(), "PATH="+libexec+":"+os.Getenv("PATH"))
	if err := r.Inside(cmd.Start); err != nil {
		r.T.Fatal(err)
	}
	r.kill = func() {
		_ = cmd.Process.Kill() // if that fails, it has ended
		_ = cmd.Wait()         // with an error, since it was killed
	}
}

// unit returns a property of a unit of systemd.
func unit(t *testing.T, name, property string) string {
	t.Helper()
	return strings.TrimSpace(kit.MustRun(t, "systemctl", "show", "--value", "--property", property, name))
}

// sliceOf is the name and the path of the slice of a pod.
func sliceOf(n *kit.Node, class string, p v1.Pod) (name, path string) {
	root := strings.ReplaceAll(n.UniqueName, "-", "_")
	path = root + ".slice"
	if class != "" {
		root += "-" + class
		path += "/" + root + ".slice"
	}
	name = root + "-pod" + strings.ReplaceAll(string(p.UID), "-", "_") + ".slice"
	return name, path + "/" + name
}

// sliceLimits are limits of a pod's slice: properties of systemd, and files by the path of their hierarchy.
type sliceLimits struct{ properties, files map[string]string }

// limitsInSlices are the limits of the pods of the test, by name, for the version of cgroups that this machine has.
func limitsInSlices() map[string]sliceLimits {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return map[string]sliceLimits{
			"guaranteed": {map[string]string{"MemoryMax": "67108864", "CPUQuotaPerSecUSec": "100ms"}, map[string]string{"memory.max": "67108864", "cpu.max": "10000 100000"}},
			"burstable":  {map[string]string{"MemoryMax": "134217728", "CPUQuotaPerSecUSec": "infinity"}, map[string]string{"memory.max": "134217728", "cpu.max": "max 100000"}},
			"besteffort": {map[string]string{"MemoryMax": "infinity", "CPUWeight": "1"}, map[string]string{"memory.max": "max", "cpu.weight": "1"}},
		}
	}
	return map[string]sliceLimits{
		"guaranteed": {map[string]string{"MemoryLimit": "67108864", "CPUQuotaPerSecUSec": "100ms"}, map[string]string{"memory/memory.limit_in_bytes": "67108864", "cpu/cpu.cfs_quota_us": "10000"}},
		"burstable":  {map[string]string{"MemoryLimit": "134217728", "CPUQuotaPerSecUSec": "infinity"}, map[string]string{"memory/memory.limit_in_bytes": "134217728", "cpu/cpu.cfs_quota_us": "-1"}},
		"besteffort": {map[string]string{"CPUShares": "2"}, map[string]string{"cpu/cpu.shares": "2"}},
	}
}

// hierarchies are the mount points of cgroups.
func hierarchies(n *kit.Node) []string {
	return kit.Filter(n.MountTable(), func(point string) bool {
		_, err := os.Stat(filepath.Join(point, "cgroup.procs"))
		return err == nil && strings.HasPrefix(point, "/sys/fs/cgroup")
	})
}

func TestPodsInSlicesOfSystemd(t *testing.T) {
	// given a container runtime with the cgroup driver systemd, and pods of all classes
	other := newDrivenRuntime(t)
	other.setDriver(true)
	n := kit.NewNode(t)
	n.Socket = other.Socket
	guaranteed, burstable := kit.ReadablePod("guaranteed"), kit.ReadablePod("burstable")
	guaranteed.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("cpu", "100m", "memory", "64Mi")}
	burstable.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: kit.ResourceList("cpu", "500m"), Limits: kit.ResourceList("memory", "128Mi")}
	n.Apply("guaranteed.yaml", guaranteed)
	n.Apply("burstable.yaml", burstable)
	n.Apply("besteffort.yaml", kit.ReadablePod("besteffort"))
	given := []string{"--container-runtime-endpoint", "unix://" + other.Socket}
	n.Start(given...)
	pods := n.WaitRunning("guaranteed", "burstable", "besteffort")

	// then each has a slice, with limits that systemd knows and the kernel has
	class := map[string]string{"guaranteed": "", "burstable": "burstable", "besteffort": "besteffort"}
	limits := limitsInSlices()
	check := func(when string) {
		t.Helper()
		for name, p := range n.Pods() {
			slice, path := sliceOf(n, class[name], p)
			for property, want := range limits[name].properties {
				if got := unit(t, slice, property); got != want {
					t.Errorf("%s: %s of %s is %s, want %s", when, property, slice, got, want)
				}
			}
			for file, want := range limits[name].files {
				if got := readFile(t, "/sys/fs/cgroup", filepath.Dir(file), path, filepath.Base(file)); got != want {
					t.Errorf("%s: %s of %s is %s, want %s", when, file, path, got, want)
				}
			}
			for _, mount := range hierarchies(n) {
				if _, err := os.Stat(filepath.Join(mount, path, "cri-containerd-"+containerID(p)+".scope")); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
		}
	}
	check("at first")
	if usage, err := n.PodUsage("burstable"); err != nil || usage.Memory == nil || usage.Memory.UsageBytes == nil {
		t.Errorf("the usage is %+v, %v", usage, err)
	}

	// when systemd reads its units again, and is executed anew, then they stay
	instances := n.Instances(pods)
	kit.MustRun(t, "systemctl", "daemon-reload")
	kit.MustRun(t, "systemctl", "daemon-reexec")
	check("after systemd was executed anew")

	// when the agent restarts, then nothing changes
	slice, _ := sliceOf(n, "burstable", pods["burstable"])
	since := unit(t, slice, "ActiveEnterTimestampMonotonic")
	n.Stop()
	n.Start(given...)
	n.WaitRunning("guaranteed", "burstable", "besteffort")
	check("after a restart of the agent")
	if now := unit(t, slice, "ActiveEnterTimestampMonotonic"); now != since {
		t.Errorf("%s was started at %s, and is since %s", slice, since, now)
	}
	n.MustKeepInstances(instances)

	// when a slice is stopped from outside, then its pod comes back in one with the same limits
	kit.MustRun(t, "systemctl", "stop", slice)
	n.WaitPod("burstable", "to be restarted", vanishTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && containerID(p) != containerID(pods["burstable"]))
	})
	check("after a slice was stopped")

	// when processes are moved out of their slice, and it vanishes, then that is noticed
	slice, path := sliceOf(n, "besteffort", pods["besteffort"])
	for _, mount := range hierarchies(n) {
		for _, scope := range kit.Filter(kit.Walk(n, filepath.Join(mount, path)), func(p string) bool { return strings.HasSuffix(p, ".scope") }) {
			for _, pid := range strings.Fields(readFile(t, scope, "cgroup.procs")) {
				if err := os.WriteFile(filepath.Join(mount, "cgroup.procs"), []byte(pid), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	kit.MustRun(t, "systemctl", "stop", slice)
	n.WaitPod("besteffort", "to be restarted", vanishTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && containerID(p) != containerID(pods["besteffort"]))
	})
	check("after a slice vanished")

	// when the runtime has another driver while pods run, then the agent ends, and names both
	n.Stop()
	other.setDriver(false)
	refused := n.RunCommand(exec.Command(n.Program, n.RunArgs(given...)...))
	for _, part := range []string{"uses the cgroup driver cgroupfs", "in cgroups of the driver systemd"} {
		if refused.Code == 0 || !strings.Contains(refused.Stderr, part) {
			t.Errorf("nothing is said of %q: %s", part, refused)
		}
	}
	other.setDriver(true)
	n.Start(given...)
	n.WaitRunning("guaranteed", "burstable", "besteffort")

	// when a pod is removed, then its slice is
	slice, path = sliceOf(n, "", pods["guaranteed"])
	n.RemoveManifest("guaranteed.yaml")
	n.WaitGone("guaranteed")
	if state := unit(t, slice, "ActiveState"); state != "inactive" {
		t.Errorf("%s is %s", slice, state)
	}
	for _, mount := range hierarchies(n) {
		if _, err := os.Stat(filepath.Join(mount, path)); !os.IsNotExist(err) {
			t.Errorf("%s is still in %s: %v", slice, mount, err)
		}
	}

	// when all is taken down, then no slice is left
	n.Down()
	root := strings.ReplaceAll(n.UniqueName, "-", "_")
	if left := kit.Filter(kit.Walk(n, "/sys/fs/cgroup"), func(p string) bool { return strings.Contains(p, root) }); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	if left := kit.MustRun(t, "systemctl", "list-units", "--all", "--no-legend", root+"*"); strings.TrimSpace(left) != "" {
		t.Errorf("units are left: %s", left)
	}
}
