//go:build real && machine

package pods

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// These need a machine that is theirs alone: test/machine boots one for them. There
// the kernel has what this one may lack, and a test may set the clock.

func TestHugePages(t *testing.T) {
	t.Parallel()
	// given a machine with huge pages, and a pod that asks for two of them
	n := kit.NewNode(t)
	huge := kit.ReadablePod("huge")
	huge.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("hugepages-2Mi", "4Mi", "memory", "64Mi", "cpu", "500m")}
	kit.AddVolume(huge, "/huge", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}})
	huge.Spec.Containers = append(huge.Spec.Containers, kit.NewContainer("neighbour", "sleep")) // which asks for none
	greedy := kit.ReadablePod("greedy")
	greedy.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("hugepages-2Mi", "1Gi", "memory", "64Mi", "cpu", "500m")}
	n.Apply("pods.yaml", huge, greedy)
	n.Start()
	p := n.WaitRunning("huge")["huge"]

	// then its cgroups have the limit, and its volume is made of such pages
	cgroup := filepath.Join("burstable", "pod"+string(p.UID))
	for path, want := range map[string]string{
		"": "67108864", cgroup: "4194304", filepath.Join(cgroup, containerID(p)): "4194304", filepath.Join(cgroup, kit.ContainerIDs(p)["neighbour"]): "0",
	} {
		if got := n.ReadCgroup("", path, "hugetlb.2MB.max"); got != want {
			t.Errorf("%s may use %s bytes of huge pages, want %s", path, got, want)
		}
	}
	if line := mountedIn(n, p, "/huge"); !strings.Contains(line, " hugetlbfs ") || !strings.Contains(line, "pagesize=2M") {
		t.Errorf("it is mounted as %s", line)
	}
	// and a pod that asks for more than there are is refused
	n.WaitPod("greedy", "to be refused", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.Status.Phase == v1.PodFailed && p.Status.Reason == "OutOfhugepages-2Mi")
	})
}

func TestWhoGoesFirstWhenMemoryRunsOut(t *testing.T) {
	t.Parallel()
	// given pods of all classes, on a machine on which scores can be lowered
	n := kit.NewNode(t)
	guaranteed := kit.ReadablePod("guaranteed")
	guaranteed.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("cpu", "100m", "memory", "64Mi")}
	n.Apply("pods.yaml", guaranteed, kit.ReadablePod("besteffort"))
	n.Start()
	pods := n.WaitRunning("guaranteed", "besteffort")
	for name, want := range map[string]string{"guaranteed": "-997", "besteffort": "1000"} {
		if got := strings.TrimSpace(n.ReadFile(pods[name], "/proc/self/oom_score_adj")); got != want {
			t.Errorf("%s goes at %s, want %s", name, got, want)
		}
	}
	for who, pid := range map[string]int{"the agent": n.Agent.Cmd.Process.Pid, "the runtime": n.ContainerdPID()} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if got := strings.TrimSpace(string(text)); err != nil || got != "-999" {
			t.Errorf("%s goes at %s: %v", who, got, err)
		}
	}
}

func TestAppArmor(t *testing.T) {
	t.Parallel()
	// given a profile that the kernel has
	n := kit.NewNode(t)
	profile := filepath.Join(n.Dir, "profile")
	n.ReplaceFile(profile, []byte("profile berth-no-mkdir flags=(attach_disconnected) {\n  file,\n  network,\n  signal,\n  deny /forbidden/ w,\n}\n"))
	kit.MustRun(t, "apparmor_parser", "--add", profile)
	t.Cleanup(func() { kit.MustRun(t, "apparmor_parser", "--remove", profile) })
	with := func(name string, p v1.AppArmorProfile) *v1.Pod {
		out := kit.ReadablePod(name)
		out.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &p}
		return out
	}
	n.Apply("pods.yaml",
		with("bound", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("berth-no-mkdir")}),
		with("usual", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}),
		with("free", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}),
		with("lost", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("berth-none")}))
	n.Start()
	pods := n.WaitRunning("bound", "usual", "free")

	// then each container is confined as it asked
	for name, want := range map[string]string{"bound": "berth-no-mkdir (enforce)", "usual": "cri-containerd.apparmor.d (enforce)", "free": "unconfined"} {
		if got := strings.TrimSpace(n.ReadFile(pods[name], "/proc/1/attr/current")); got != want {
			t.Errorf("%s runs as %s, want %s", name, got, want)
		}
	}
	if got := n.WaitAnswer(pods["bound"].Status.PodIP+":7070", "/mkdir?path=/forbidden"); !strings.Contains(got, "permission denied") {
		t.Errorf("bound: %s", got)
	}
	if got := n.WaitAnswer(pods["bound"].Status.PodIP+":7070", "/mkdir?path=/allowed"); got != "made\n" {
		t.Errorf("bound: %s", got)
	}
	n.WaitPod("lost", "to say what is missing", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && strings.Contains(w.Message, "berth-none"))
	})
}

func TestNFS(t *testing.T) {
	t.Parallel()
	// given the kernel's own server, on the other end of a cable
	n := kit.NewNode(t)
	kit.MustRun(t, "ip", "link", "add", "nfs0", "type", "veth", "peer", "name", "nfs1", "netns", n.UniqueName)
	kit.MustRun(t, "ip", "addr", "add", "10.77.0.1/24", "dev", "nfs0")
	kit.MustRun(t, "ip", "link", "set", "nfs0", "up")
	n.MustRun(t, "ip", "addr", "add", "10.77.0.2/24", "dev", "nfs1")
	n.MustRun(t, "ip", "link", "set", "nfs1", "up")
	shared := filepath.Join(n.Dir, "shared")
	mustMake(n, shared, "file")
	kit.MustRun(t, "exportfs", "-o", "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=1", "10.77.0.2:"+shared)
	t.Cleanup(func() { kit.MustRun(t, "exportfs", "-u", "10.77.0.2:"+shared) })
	export := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "10.77.0.1", Path: shared}}
	writes, reads, doomed := kit.ReadablePod("writes"), kit.ReadablePod("reads"), kit.ReadablePod("doomed")
	kit.AddVolume(writes, "/vol", export)
	kit.AddVolume(doomed, "/vol", export)
	locked := export.NFS.DeepCopy()
	locked.ReadOnly = true
	kit.AddVolume(reads, "/vol", v1.VolumeSource{NFS: locked})

	// when the server does not answer for longer than the timeout of one attempt
	muteness := []string{"INPUT", "--in-interface", "nfs0", "--jump", "DROP"}
	kit.MustRun(t, "iptables", append([]string{"--wait", "--insert"}, muteness...)...)
	n.Apply("writes.yaml", writes)
	n.Apply("doomed.yaml", doomed)
	n.Start()
	began := time.Now()
	n.Apply("beside.yaml", kit.ReadablePod("beside"))

	// then it is seen what is waited for, and since when, and others start as ever
	n.WaitRunning("beside")
	for _, name := range []string{"writes", "doomed"} {
		waitMessage(n, name, "mount 10.77.0.1:"+shared+": not done since 20")
	}
	t.Logf("it was reported after %s", time.Since(began).Round(time.Second))
	if got := n.MustBerth("get", "node", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "True" {
		t.Errorf("the node is ready: %s", got)
	}
	// and who need not wait any more does not, nor does anything that worked for it
	held := n.Pods()
	mounting := mountersOf(n, held["writes"])
	if len(mounting) == 0 || len(mountersOf(n, held["doomed"])) == 0 {
		t.Fatalf("nobody mounts: %v", n.OwnProcesses())
	}
	n.RemoveManifest("doomed.yaml")
	n.WaitGone("doomed")
	if left := mountersOf(n, held["doomed"]); len(left) > 0 {
		t.Errorf("they still mount for a pod that is gone: %v", left)
	}
	// and the other was not mounted again
	if now := mountersOf(n, held["writes"]); !maps.Equal(now, mounting) {
		t.Errorf("%v mount, before it was %v", now, mounting)
	}

	// when it answers, then all goes on
	kit.MustRun(t, "iptables", append([]string{"--wait", "--delete"}, muteness...)...)
	answers := time.Now()
	// The kernel knocks ever more rarely, after 31 s, 63 s and 127 s.
	n.WaitPod("writes", "to run", 3*time.Minute, func(p v1.Pod) string { return kit.MissingUnless(kit.IsRunning(p)) })
	t.Logf("the pod ran %s after the server answered again", time.Since(answers).Round(time.Second))
	n.Apply("reads.yaml", reads)
	pods := n.WaitRunning("writes", "reads")

	// and pods share what it has
	if line := mountedIn(n, pods["writes"], "/vol"); !strings.Contains(line, " nfs4 ") {
		t.Error(line)
	}
	if got := n.ReadFile(pods["reads"], "/vol/file"); got != "file" {
		t.Errorf("the file holds %q", got)
	}
	if !canWrite(n, pods["writes"], "/vol/new") {
		t.Error("what may be written can't be")
	}
	if canWrite(n, pods["reads"], "/vol/newer") {
		t.Error("what is read-only can be written")
	}
	if _, err := os.Stat(filepath.Join(shared, "new")); err != nil {
		t.Error(err)
	}

	// when the cable is cut and a pod removed, then no other pod has to wait
	n.RemoveManifest("reads.yaml")
	n.WaitGone("reads")
	kit.MustRun(t, "ip", "link", "set", "nfs0", "down")
	n.RemoveManifest("writes.yaml")
	n.Apply("other.yaml", kit.ReadablePod("other"))
	n.WaitRunning("other")

	// and once the server is back, it goes, and leaves what it wrote
	kit.MustRun(t, "ip", "link", "set", "nfs0", "up")
	n.WaitGone("writes")
	if left := kit.Filter(n.MountTable(), func(line string) bool { return strings.Contains(line, " nfs4 ") }); len(left) > 0 {
		t.Errorf("mounts are left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(shared, "new")); err != nil {
		t.Error(err)
	}
}

// mountersOf are the programs that mount volumes of a pod.
func mountersOf(n *kit.Node, p v1.Pod) map[int]string {
	n.T.Helper()
	below := filepath.Join(n.Root, "pods", string(p.UID)) + "/"
	found := n.OwnProcesses()
	maps.DeleteFunc(found, func(_ int, args string) bool { return !strings.Contains(args, below) })
	return found
}
