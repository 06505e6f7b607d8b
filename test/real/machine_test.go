//go:build real && machine

package real

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// These need a machine that is theirs alone: test/machine boots one for them. There
// the kernel has what this one may lack, and a test may set the clock.

func mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func TestHugePages(t *testing.T) {
	t.Parallel()
	// given a machine with huge pages, and a pod that asks for two of them
	n := newNode(t)
	huge := open("huge")
	huge.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "4Mi", "memory", "64Mi", "cpu", "500m")}
	mount(huge, "/huge", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}})
	huge.Spec.Containers = append(huge.Spec.Containers, newContainer("neighbour", "sleep")) // which asks for none
	greedy := open("greedy")
	greedy.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "1Gi", "memory", "64Mi", "cpu", "500m")}
	n.apply("pods.yaml", huge, greedy)
	n.start()
	p := n.waitRunning("huge")["huge"]

	// then its cgroups have the limit, and its volume is made of such pages
	cgroup := filepath.Join("burstable", "pod"+string(p.UID))
	for path, want := range map[string]string{
		"": "67108864", cgroup: "4194304", filepath.Join(cgroup, idsOf(p)): "4194304", filepath.Join(cgroup, ids(p)["neighbour"]): "0",
	} {
		if got := n.inCgroup("", path, "hugetlb.2MB.max"); got != want {
			t.Errorf("%s may use %s bytes of huge pages, want %s", path, got, want)
		}
	}
	if line := n.mountedIn(p, "/huge"); !strings.Contains(line, " hugetlbfs ") || !strings.Contains(line, "pagesize=2M") {
		t.Errorf("it is mounted as %s", line)
	}
	// and a pod that asks for more than there are is refused
	n.waitPod("greedy", "to be refused", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Phase == v1.PodFailed && p.Status.Reason == "OutOfhugepages-2Mi")
	})
}

func TestWhoGoesFirstWhenMemoryRunsOut(t *testing.T) {
	t.Parallel()
	// given pods of all classes, on a machine on which scores can be lowered
	n := newNode(t)
	guaranteed := open("guaranteed")
	guaranteed.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: amounts("cpu", "100m", "memory", "64Mi")}
	n.apply("pods.yaml", guaranteed, open("besteffort"))
	n.start()
	pods := n.waitRunning("guaranteed", "besteffort")
	for name, want := range map[string]string{"guaranteed": "-997", "besteffort": "1000"} {
		if got := strings.TrimSpace(n.contentOf(pods[name], "/proc/self/oom_score_adj")); got != want {
			t.Errorf("%s goes at %s, want %s", name, got, want)
		}
	}
	for who, pid := range map[string]int{"the agent": n.agent.cmd.Process.Pid, "the runtime": n.containerdPID()} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if got := strings.TrimSpace(string(text)); err != nil || got != "-999" {
			t.Errorf("%s goes at %s: %v", who, got, err)
		}
	}
}

func TestAppArmor(t *testing.T) {
	t.Parallel()
	// given a profile that the kernel has
	n := newNode(t)
	profile := filepath.Join(n.dir, "profile")
	n.put(profile, []byte("profile berth-no-mkdir flags=(attach_disconnected) {\n  file,\n  network,\n  signal,\n  deny /forbidden/ w,\n}\n"))
	mustRun(t, "apparmor_parser", "--add", profile)
	t.Cleanup(func() { mustRun(t, "apparmor_parser", "--remove", profile) })
	with := func(name string, p v1.AppArmorProfile) *v1.Pod {
		out := open(name)
		out.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &p}
		return out
	}
	n.apply("pods.yaml",
		with("bound", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("berth-no-mkdir")}),
		with("usual", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}),
		with("free", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}),
		with("lost", v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("berth-none")}))
	n.start()
	pods := n.waitRunning("bound", "usual", "free")

	// then each container is confined as it asked
	for name, want := range map[string]string{"bound": "berth-no-mkdir (enforce)", "usual": "cri-containerd.apparmor.d (enforce)", "free": "unconfined"} {
		if got := strings.TrimSpace(n.contentOf(pods[name], "/proc/1/attr/current")); got != want {
			t.Errorf("%s runs as %s, want %s", name, got, want)
		}
	}
	if got := n.waitAnswer(pods["bound"].Status.PodIP+":7070", "/mkdir?path=/forbidden"); !strings.Contains(got, "permission denied") {
		t.Errorf("bound: %s", got)
	}
	if got := n.waitAnswer(pods["bound"].Status.PodIP+":7070", "/mkdir?path=/allowed"); got != "made\n" {
		t.Errorf("bound: %s", got)
	}
	n.waitPod("lost", "to say what is missing", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(w != nil && strings.Contains(w.Message, "berth-none"))
	})
}

func TestNFS(t *testing.T) {
	t.Parallel()
	// given the kernel's own server, on the other end of a cable
	n := newNode(t)
	mustRun(t, "ip", "link", "add", "nfs0", "type", "veth", "peer", "name", "nfs1", "netns", n.name)
	mustRun(t, "ip", "addr", "add", "10.77.0.1/24", "dev", "nfs0")
	mustRun(t, "ip", "link", "set", "nfs0", "up")
	n.mustRun(t, "ip", "addr", "add", "10.77.0.2/24", "dev", "nfs1")
	n.mustRun(t, "ip", "link", "set", "nfs1", "up")
	shared := filepath.Join(n.dir, "shared")
	n.mustMake(shared, "file")
	mustRun(t, "exportfs", "-o", "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=1", "10.77.0.2:"+shared)
	t.Cleanup(func() { mustRun(t, "exportfs", "-u", "10.77.0.2:"+shared) })
	export := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "10.77.0.1", Path: shared}}
	writes, reads, doomed := open("writes"), open("reads"), open("doomed")
	mount(writes, "/vol", export)
	mount(doomed, "/vol", export)
	locked := export.NFS.DeepCopy()
	locked.ReadOnly = true
	mount(reads, "/vol", v1.VolumeSource{NFS: locked})

	// when it does not answer for longer than anybody waits in one go
	muteness := []string{"INPUT", "--in-interface", "nfs0", "--jump", "DROP"}
	mustRun(t, "iptables", append([]string{"--wait", "--insert"}, muteness...)...)
	n.apply("writes.yaml", writes)
	n.apply("doomed.yaml", doomed)
	n.start()
	began := time.Now()
	n.apply("beside.yaml", open("beside"))

	// then it is seen what is waited for, and since when, and others start as ever
	n.waitRunning("beside")
	for _, name := range []string{"writes", "doomed"} {
		n.waitMessage(name, "mount 10.77.0.1:"+shared+": not done since 20")
	}
	t.Logf("it was told after %s", time.Since(began).Round(time.Second))
	if got := n.must("get", "node", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "True" {
		t.Errorf("the node is ready: %s", got)
	}
	// and who need not wait any more does not, nor does anything that worked for it
	held := n.pods()
	mounting := n.mounting(held["writes"])
	if len(mounting) == 0 || len(n.mounting(held["doomed"])) == 0 {
		t.Fatalf("nobody mounts: %v", n.processes())
	}
	n.remove("doomed.yaml")
	n.waitGone("doomed")
	if left := n.mounting(held["doomed"]); len(left) > 0 {
		t.Errorf("they still mount for a pod that is gone: %v", left)
	}
	// and for the other nobody began anew
	if now := n.mounting(held["writes"]); !maps.Equal(now, mounting) {
		t.Errorf("%v mount, before it was %v", now, mounting)
	}

	// when it answers, then all goes on
	mustRun(t, "iptables", append([]string{"--wait", "--delete"}, muteness...)...)
	answers := time.Now()
	// The kernel knocks ever more rarely, after 31 s, 63 s and 127 s.
	n.waitPod("writes", "to run", 3*time.Minute, func(p v1.Pod) string { return boolText(isRunning(p)) })
	t.Logf("the pod ran %s after the server answered again", time.Since(answers).Round(time.Second))
	n.apply("reads.yaml", reads)
	pods := n.waitRunning("writes", "reads")

	// and pods share what it has
	if line := n.mountedIn(pods["writes"], "/vol"); !strings.Contains(line, " nfs4 ") {
		t.Error(line)
	}
	if got := n.contentOf(pods["reads"], "/vol/file"); got != "file" {
		t.Errorf("the file holds %q", got)
	}
	if !n.canWrite(pods["writes"], "/vol/new") {
		t.Error("what may be written can't be")
	}
	if n.canWrite(pods["reads"], "/vol/newer") {
		t.Error("what is read-only can be written")
	}
	if _, err := os.Stat(filepath.Join(shared, "new")); err != nil {
		t.Error(err)
	}

	// when the cable is cut and a pod removed, then nobody else has to wait
	n.remove("reads.yaml")
	n.waitGone("reads")
	mustRun(t, "ip", "link", "set", "nfs0", "down")
	n.remove("writes.yaml")
	n.apply("other.yaml", open("other"))
	n.waitRunning("other")

	// and once the server is back, it goes, and leaves what it wrote
	mustRun(t, "ip", "link", "set", "nfs0", "up")
	n.waitGone("writes")
	if left := filter(n.mountTable(), func(line string) bool { return strings.Contains(line, " nfs4 ") }); len(left) > 0 {
		t.Errorf("mounts are left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(shared, "new")); err != nil {
		t.Error(err)
	}
}

// mounting are the programs that mount volumes of a pod.
func (n *node) mounting(p v1.Pod) map[int]string {
	n.t.Helper()
	below := filepath.Join(n.root, "pods", string(p.UID)) + "/"
	found := n.processes()
	maps.DeleteFunc(found, func(_ int, args string) bool { return !strings.Contains(args, below) })
	return found
}
