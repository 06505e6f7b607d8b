//go:build real

package pods

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// containerID is the ID of the container of a pod that has one.
func containerID(p v1.Pod) string { return kit.ContainerIDs(p)["app"] }

func TestSeccompProfileOfTheMachine(t *testing.T) {
	t.Parallel()
	// given a profile that forbids one call
	n := kit.NewNode(t)
	dir := filepath.Join(n.Root, "seccomp", "mine")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.ReplaceFile(filepath.Join(dir, "no-mkdir.json"), []byte(`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":1}]}`))
	with := func(name, profile string) *v1.Pod {
		p := kit.ReadablePod(name)
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &profile}}
		return p
	}
	n.Apply("pods.yaml", kit.ReadablePod("free"), with("bound", "mine/no-mkdir.json"), with("lost", "mine/none.json"))
	n.Start()
	pods := n.WaitRunning("free", "bound")

	// then it holds for the pod that names it
	if got := n.WaitAnswer(pods["free"].Status.PodIP+":7070", "/mkdir?path=/x"); got != "made\n" {
		t.Errorf("free: %s", got)
	}
	if got := n.WaitAnswer(pods["bound"].Status.PodIP+":7070", "/mkdir?path=/x"); !strings.Contains(got, "operation not permitted") {
		t.Errorf("bound: %s", got)
	}
	n.WaitPod("lost", "to say what is missing", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && strings.Contains(w.Message, "none.json"))
	})
}

func TestUsersOfItsOwn(t *testing.T) {
	t.Parallel()
	// given pods whose root is no user of the machine, one with a volume
	n := kit.NewNode(t)
	if err := os.Chmod(n.Dir, 0o711); err != nil { // they have to find their files
		t.Fatal(err)
	}
	mapped := func(name string) *v1.Pod {
		p := kit.ReadablePod(name)
		p.Spec.HostUsers = new(false)
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		return p
	}
	n.Apply("a.yaml", mapped("a"))
	n.Start()
	n.WaitRunning("a")
	n.Apply("b.yaml", mapped("b"))
	pods := n.WaitRunning("a", "b")

	ids := func(p v1.Pod) string { return strings.Join(strings.Fields(n.ReadFile(p, "/proc/self/uid_map")), " ") }
	if ids(pods["a"]) != "0 65536 65536" || ids(pods["b"]) != "0 131072 65536" {
		t.Errorf("a has %s, b has %s", ids(pods["a"]), ids(pods["b"]))
	}
	if got := n.ProcStatus(pods["a"], "Uid"); got != "0 0 0 0" {
		t.Errorf("inside it is %s", got)
	}
	_, pid := n.Container(containerID(pods["a"]))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !strings.Contains(string(status), "\nUid:\t65536\t") {
		t.Errorf("outside it is %v\n%s", err, status)
	}
	// what it writes into its volume belongs to root there
	if got := n.WaitAnswer(pods["a"].Status.PodIP+":7070", "/mkdir?path=/data/x"); got != "made\n" {
		t.Errorf("its volume: %s", got)
	}

	// when the agent is killed, and a is removed and comes back, then b keeps its ids
	n.KillAgent()
	n.RemoveManifest("a.yaml")
	n.Start()
	n.WaitGone("a")
	n.Apply("a.yaml", mapped("a"), mapped("c"))
	pods = n.WaitRunning("a", "b", "c")
	if got := ids(pods["b"]); got != "0 131072 65536" {
		t.Errorf("b has %s", got)
	}
	if a, c := ids(pods["a"]), ids(pods["c"]); a == c || (a != "0 65536 65536" && c != "0 65536 65536") {
		t.Errorf("a has %s, c has %s", a, c)
	}
}

// isCgroupV2 reports whether this machine has one tree of cgroups for all controllers.
func isCgroupV2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// memoryOfTheMachine is the memory of the machine in bytes.
func memoryOfTheMachine(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(text)) // MemTotal: 16384 kB
	return number(t, words[1]) << 10
}

// processesOfTheMachine is how many processes the machine can have at a time.
func processesOfTheMachine(t *testing.T) int {
	t.Helper()
	most := math.MaxInt
	for _, setting := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + setting)
		if err != nil {
			t.Fatal(err)
		}
		most = min(most, number(t, strings.TrimSpace(string(text))))
	}
	return most
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestResourcesInTheKernel(t *testing.T) {
	t.Parallel()
	// given a machine of which all but 800m of the processors, and some memory, are reserved, and
	// pods of all classes
	n := kit.NewNode(t)
	n.Configure(fmt.Sprintf("kubeReserved: {cpu: %dm, memory: 64Mi, pid: '100'}\nsystemReserved: {memory: 32Mi}\n", runtime.NumCPU()*1000-800))
	guaranteed := kit.ReadablePod("guaranteed")
	guaranteed.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("cpu", "500m", "memory", "64Mi"), Requests: kit.ResourceList("cpu", "500m", "memory", "64Mi")}
	burstable := kit.ReadablePod("burstable")
	burstable.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: kit.ResourceList("cpu", "250m", "memory", "16Mi")}
	bestEffort := kit.ReadablePod("besteffort")
	hungry := kit.NewPod("hungry", "eat", "256")
	hungry.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("memory", "32Mi")}
	parent := kit.NewPod("parent", "sleep")
	parent.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("memory", "32Mi")}
	n.Apply("pods.yaml", guaranteed, burstable, bestEffort, hungry, parent)
	n.Start()
	pods := n.WaitRunning("guaranteed", "burstable", "besteffort", "parent")

	// then the kernel has their limits
	uid := func(name string) string { return "pod" + string(pods[name].UID) }
	own := func(name string) string { return filepath.Join(uid(name), containerID(pods[name])) }
	memory, processes := strconv.Itoa(memoryOfTheMachine(t)-96<<20), strconv.Itoa(processesOfTheMachine(t)-100)
	for _, want := range []struct {
		path   string
		v1, v2 [3]string // controller, file and what it holds
	}{
		{"", [3]string{"cpu", "cpu.shares", "819"}, [3]string{"", "cpu.weight", "84"}},
		{"", [3]string{"cpu", "cpu.cfs_quota_us", "-1"}, [3]string{"", "cpu.max", "max 100000"}},
		{"", [3]string{"memory", "memory.limit_in_bytes", memory}, [3]string{"", "memory.max", memory}},
		{"", [3]string{"pids", "pids.max", processes}, [3]string{"", "pids.max", processes}},
		{uid("guaranteed"), [3]string{"cpu", "cpu.shares", "512"}, [3]string{"", "cpu.weight", "59"}},
		{uid("guaranteed"), [3]string{"cpu", "cpu.cfs_quota_us", "50000"}, [3]string{"", "cpu.max", "50000 100000"}},
		{uid("guaranteed"), [3]string{"memory", "memory.limit_in_bytes", "67108864"}, [3]string{"", "memory.max", "67108864"}},
		{own("guaranteed"), [3]string{"cpu", "cpu.shares", "512"}, [3]string{"", "cpu.weight", "59"}},
		{own("guaranteed"), [3]string{"cpu", "cpu.cfs_quota_us", "50000"}, [3]string{"", "cpu.max", "50000 100000"}},
		{own("guaranteed"), [3]string{"memory", "memory.limit_in_bytes", "67108864"}, [3]string{"", "memory.max", "67108864"}},
		{own("guaranteed"), [3]string{"memory", "memory.memsw.limit_in_bytes", "67108864"}, [3]string{"", "memory.swap.max", "0"}},
		{"burstable/" + uid("burstable"), [3]string{"cpu", "cpu.shares", "256"}, [3]string{"", "cpu.weight", "35"}},
		{"burstable/" + uid("burstable"), [3]string{"cpu", "cpu.cfs_quota_us", "-1"}, [3]string{"", "cpu.max", "max 100000"}},
		{"besteffort/" + uid("besteffort"), [3]string{"cpu", "cpu.shares", "2"}, [3]string{"", "cpu.weight", "1"}},
		{"besteffort", [3]string{"cpu", "cpu.shares", "2"}, [3]string{"", "cpu.weight", "1"}},
		// It may use all memory that others leave. Only version 2 can keep it from swapping then.
		{"besteffort/" + own("besteffort"), [3]string{"memory", "memory.memsw.limit_in_bytes", "9223372036854771712"}, [3]string{"", "memory.swap.max", "0"}},
	} {
		file := want.v1
		if isCgroupV2() {
			file = want.v2
		}
		if got := n.ReadCgroup(file[0], want.path, file[1]); got != file[2] {
			t.Errorf("%s/%s of %s is %s, want %s", file[0], file[1], want.path, got, file[2])
		}
	}
	controller, file, least := "cpu", "cpu.shares", 256 // hungry asks for none
	if isCgroupV2() {
		controller, file, least = "", "cpu.weight", 35
	}
	if got, err := strconv.Atoi(n.ReadCgroup(controller, "burstable", file)); err != nil || got < least {
		t.Errorf("burstable pods get %d together, %v", got, err)
	}
	if got := strings.TrimSpace(n.ReadFile(pods["besteffort"], "/proc/self/oom_score_adj")); got != "1000" { // the others can't be lowered everywhere
		t.Errorf("besteffort goes at %s", got)
	}

	// and who takes more than it may is ended, and its status says why
	n.WaitPod("hungry", "to be ended", kit.StartTimeout, func(p v1.Pod) string {
		ended := kit.AppStatus(p).LastTerminationState.Terminated
		if ended == nil {
			ended = kit.AppStatus(p).State.Terminated
		}
		return kit.MissingUnless(ended != nil && ended.Reason == "OOMKilled" && ended.ExitCode == 137 && strings.Contains(ended.Message, "The kernel killed process workload (pid "))
	})

	// also if it is a child of the container's main process
	if eaten := n.RunCommand(exec.Command(n.Program, "exec", "--root-dir", n.Root, "parent", "--", "/workload", "eat", "256")); eaten.Code == 0 {
		t.Error("a child could use more memory than its container may")
	}
	if e := n.WaitEvent(pods["parent"], "OOMKilling"); e.InvolvedObject.FieldPath != "spec.containers{app}" || !strings.Contains(e.Message, "The kernel killed process workload (pid ") {
		t.Errorf("the event is %+v", e)
	}

	// when less is reserved, and the agent is started again, then pods may use more, and go on
	n.KillAgent()
	n.Configure("kubeReserved: {memory: 64Mi}\nenforceNodeAllocatable: [none]\n")
	n.Start()
	n.Wait("all memory to be for pods", kit.StartTimeout, func() string {
		controller, file := "memory", "memory.limit_in_bytes"
		if isCgroupV2() {
			controller, file = "", "memory.max"
		}
		return kit.MissingUnless(n.ReadCgroup(controller, "", file) == strconv.Itoa(memoryOfTheMachine(t)))
	})
	steady := []string{"guaranteed", "burstable", "besteffort"}
	now := n.WaitRunning(steady...)
	for _, name := range steady {
		if was, is := containerID(pods[name]), containerID(now[name]); is != was {
			t.Errorf("%s was %s, and now is %s", name, was, is)
		}
	}

	// when they are gone, then so are their cgroups
	n.RemoveManifest("pods.yaml")
	n.WaitGone("guaranteed", "burstable", "besteffort", "hungry", "parent")
	for _, path := range n.Cgroups() {
		if strings.Contains(path, "/pod") {
			t.Errorf("%s is left", path)
		}
	}
}

func TestDownEndsWhatIsLeftInACgroup(t *testing.T) {
	t.Parallel()
	// given a pod, and a process that got into its cgroup and is of no container
	n := kit.NewNode(t)
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	p := n.WaitRunning("web")["web"]
	left := exec.Command("sleep", "600")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	t.Cleanup(func() { _ = left.Process.Kill() })
	hierarchies := []string{"memory", "freezer", "unified"}
	group := filepath.Join(n.UniqueName, "besteffort", "pod"+string(p.UID))
	if isCgroupV2() { // there, one that has others in it can't have processes
		hierarchies, group = []string{""}, filepath.Join(group, "left")
	}
	for _, hierarchy := range hierarchies {
		dir := filepath.Join("/sys/fs/cgroup", hierarchy, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(left.Process.Pid)), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	// when all is taken down, then the process is, too
	n.KillAgent()
	began := time.Now()
	n.Down()
	t.Logf("down after %s", time.Since(began).Round(time.Millisecond))
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
	if groups := n.Cgroups(); len(groups) > 0 {
		t.Errorf("cgroups are left: %v", groups)
	}
}
