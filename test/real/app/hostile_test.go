//go:build real

package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/test/real/kit"
)

// agentMemory is the memory limit of the agent while pods attack it. It needs less than half of it.
const agentMemory = 128 << 20

// trick is one attempt of a pod to hurt the agent.
type trick struct {
	name string
	pods func(*kit.Node) []*v1.Pod
	// played waits until the trick has been played to its end, and looks at what came of it. Without
	// it, that is when the first pod says so.
	played func(*kit.Node)
	// slow tricks take some minutes, and their pods as long to go; others are served while they go, too.
	slow bool
	// memory is what the trick aims at.
	memory bool
}

// slowLimit is how long a slow trick may take, and how long its pods may take to go. A quiet machine
// needs a quarter of it.
const slowLimit = 3 * time.Minute

func (t trick) limit() time.Duration {
	if t.slow {
		return slowLimit
	}
	return kit.StartTimeout
}

// This test has the machine for itself, since its pods take what they can get: it is not parallel.
func TestHostilePods(t *testing.T) {
	limit := newMemoryLimit(t, agentMemory)
	n := kit.NewNode(t)
	n.Configure("podPidsLimit: 150\ncrashLoopBackOff: {maxContainerRestartPeriod: 1s}\n")
	n.Apply("served.yaml", kit.NewPod("served", "serve", ":8080"))
	n.Start()
	n.WaitRunning("served")
	if allTricks {
		playRuntime(n)
	} else {
		n.Stop()
	}

	// given an agent with little memory; the runtime runs already, and has what it needs
	startIn(n, limit)
	mustServe(n)
	agent, runtime := n.Agent.Cmd.Process.Pid, n.ContainerdPID()
	for _, trick := range tricks {
		if !allTricks && !trick.memory {
			continue
		}
		t.Run(trick.name, func(t *testing.T) {
			n := inSubtest(n, t)
			limit.resetPeak()
			pods := trick.pods(n)
			var names []string
			for _, p := range pods {
				names = append(names, p.Name)
			}
			// when pods play a trick
			began := time.Now()
			n.Apply("hostile.yaml", pods...)
			if trick.played != nil {
				trick.played(n)
			} else {
				waitDone(n, names[0], trick.limit())
			}
			played := time.Since(began)

			// then others are served meanwhile, and nothing is left of those pods
			mustServe(n)
			removed := time.Now()
			n.RemoveManifest("hostile.yaml")
			if trick.slow {
				mustServe(n)
			}
			n.WaitGoneWithin(trick.limit(), names...)
			mustHaveOnly(n, "served")
			t.Logf("played in %s, served in %s, removed in %s; its limit saw up to %d MiB, and the agent has had up to %d MiB",
				played.Round(time.Millisecond), removed.Sub(began.Add(played)).Round(time.Millisecond), time.Since(removed).Round(time.Millisecond), limit.peak()>>20, peakMiB(n))

			// and the agent is the one that it was
			select {
			case <-n.Agent.Ended:
				t.Fatalf("the agent ended: %s; killed for its memory: %d times", n.Agent.Cmd.ProcessState, limit.killed())
			default:
			}
			if limit.killed() != 0 || n.Agent.Cmd.Process.Pid != agent || n.ContainerdPID() != runtime {
				t.Fatalf("killed for memory: %d times; agent %d, containerd %d before and %d after", limit.killed(), agent, runtime, n.ContainerdPID())
			}
		})
		if t.Failed() {
			return // the next would only suffer from it
		}
	}
}

// tricks are in the order in which they are played.
var tricks = []trick{
	{name: "files that are as large as can be", memory: true, pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("sparse", "hostile", "sparse", "/scratch", "/etc/hosts", "/dev/termination-log")
		return []*v1.Pod{withVolume(p, "/scratch", v1.EmptyDirVolumeSource{})}
	}},
	{name: "millions of names in a folder", memory: true, slow: true, pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("names", "hostile", "names", "/scratch", strconv.Itoa(namesInAFolder))
		return []*v1.Pod{withVolume(p, "/scratch", v1.EmptyDirVolumeSource{})}
	}, played: func(n *kit.Node) {
		waitDone(n, "names", slowLimit)
		// A client that asks for the usage of volumes has them counted, while others are served.
		if _, err := n.PodUsage("names"); err != nil {
			n.T.Error(err)
		}
	}},
	{name: "folders in folders", pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("deep", "hostile", "deep", "/scratch", "10000")
		return []*v1.Pod{withVolume(p, "/scratch", v1.EmptyDirVolumeSource{})}
	}},
	{name: "pipes and links in a volume", pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("pipes", "hostile", "pipes", "/scratch", "/memory")
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(1234))}
		withVolume(p, "/scratch", v1.EmptyDirVolumeSource{})
		return []*v1.Pod{withVolume(p, "/memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory})}
	}},
	{name: "pipes and links for logs", pods: replacedLogs, played: lookAtReplacedLogs},
	{name: "a line without end", pods: func(*kit.Node) []*v1.Pod {
		return []*v1.Pod{kit.NewPod("endless", "hostile", "endless", "300")}
	}, played: func(n *kit.Node) {
		waitDone(n, "endless", kit.StartTimeout)
		for _, args := range [][]string{{"--tail", "1"}, {"--tail", "100000"}, {"--since", "1s"}} {
			discard(n, append([]string{"logs", "endless"}, args...)...)
		}
	}},
	{name: "as many processes as can be", pods: func(*kit.Node) []*v1.Pod {
		return []*v1.Pod{kit.NewPod("forks", "hostile", "forks")}
	}},
	{name: "a last message of many megabytes", pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("message", "hostile", "message", "/dev/termination-log", "32")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		log := kit.NewContainer("log", "hostile", "message", "/dev/null", "32")
		log.TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		p.Spec.Containers = append(p.Spec.Containers, log)
		return []*v1.Pod{p}
	}, played: lookAtMessages},
	{name: "commands that print without end", pods: func(*kit.Node) []*v1.Pod { return []*v1.Pod{loud()} }, played: listenToLoud},
	{name: "volumes that are full", pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("fill", "hostile", "fill", "64", "/disk/file", "/memory/file", "/etc/hosts", "/dev/termination-log")
		withVolume(p, "/disk", v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("16Mi"))})
		withVolume(p, "/memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: new(resource.MustParse("16Mi"))})
		return []*v1.Pod{p}
	}},
	{name: "signals to all that it sees", pods: func(*kit.Node) []*v1.Pod {
		p := kit.NewPod("kill", "hostile", "kill")
		p.Spec.ShareProcessNamespace = new(true)
		p.Spec.Containers = append(p.Spec.Containers, kit.NewContainer("victim", "sleep"))
		return []*v1.Pod{p}
	}, played: func(n *kit.Node) {
		waitDone(n, "kill", kit.StartTimeout)
		n.WaitPod("kill", "has a container that was killed", kit.StartTimeout, func(p v1.Pod) string {
			return kit.MissingUnless(len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[1].RestartCount > 0)
		})
	}},
	{name: "a folder that becomes a link", pods: func(*kit.Node) []*v1.Pod {
		p := withVolume(kit.NewPod("swap", "hostile", "swap", "/scratch"), "/scratch", v1.EmptyDirVolumeSource{})
		into := kit.NewContainer("into", "hostile", "escaped", "/mnt")
		into.VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/mnt", SubPath: "spot"}}
		p.Spec.Containers = append(p.Spec.Containers, into)
		return []*v1.Pod{p}
	}, played: func(n *kit.Node) {
		waitDone(n, "swap", kit.StartTimeout)
		// Each attempt meets the folder or the link by chance, and those that meet the link are repeated after growing pauses.
		n.WaitPod("swap", "has mounted the folder twice", 3*kit.StartTimeout, func(p v1.Pod) string {
			return kit.MissingUnless(len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[1].RestartCount > 0)
		})
		if got := n.Berth("logs", "swap", "-c", "into"); strings.Contains(got.Out, "escaped") {
			n.T.Errorf("a container got a folder of the machine")
		}
	}},
}

// withVolume adds an emptyDir to the first container of a pod.
func withVolume(p *v1.Pod, at string, dir v1.EmptyDirVolumeSource) *v1.Pod {
	name := strings.Trim(at, "/")
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &dir}})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: at})
	return p
}

// playRuntime has pods pretend to be the container runtime, with and without a pid namespace of their own.
// The agent must not take them for it, neither when the real one dies nor when it has lost the pid file.
func playRuntime(n *kit.Node) {
	n.T.Helper()
	fake := func(name string, args ...string) *v1.Pod {
		return kit.NewPod(name, append([]string{"hostile", "call"}, args...)...)
	}
	containerd := []string{"/fake/containerd", "--config", filepath.Join(n.Root, "containerd.toml")}
	shim := []string{"/fake/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address", n.Socket}
	pods := []*v1.Pod{fake("fake-containerd", containerd...), fake("fake-shim", shim...), fake("host-containerd", containerd...), fake("host-shim", shim...)}
	pods[2].Spec.HostPID, pods[3].Spec.HostPID = true, true
	n.Apply("fakes.yaml", pods...)
	for _, p := range pods {
		waitDone(n, p.Name, kit.StartTimeout)
	}

	// when the real one dies, then another is started, and pods are
	before := n.ContainerdPID()
	agent := n.Agent.Cmd.Process.Pid
	runtime, err := os.FindProcess(before)
	if err != nil {
		n.T.Fatal(err)
	}
	if err := runtime.Kill(); err != nil {
		n.T.Fatal(err)
	}
	n.Wait("another containerd", kit.StartTimeout, func() string { return kit.MissingUnless(n.ContainerdPID() != before) })
	mustServe(n)
	if n.Agent.Cmd.Process.Pid != agent {
		n.T.Error("the agent is another one")
	}

	// when the agent comes back and has lost the pid file, then it finds the real one
	now := n.ContainerdPID()
	n.Stop()
	if err := os.Remove(filepath.Join(n.Root, "run", "containerd.pid")); err != nil {
		n.T.Fatal(err)
	}
	n.Start()
	mustServe(n)
	if found := n.ContainerdPID(); found != now {
		n.T.Fatalf("adopted process %d, and containerd is %d", found, now)
	}
	n.RemoveManifest("fakes.yaml")
	n.WaitGone("fake-containerd", "fake-shim", "host-containerd", "host-shim")
	n.Stop()
}

// replacedLogs returns two pods: one has the folder of all logs, and replaces the logs of the
// other.
func replacedLogs(n *kit.Node) []*v1.Pod {
	p := kit.NewPod("replaced", "hostile", "replaced", "/logs/*_victim-*/app/0.log", "/logs/*_victim-*/other/0.log")
	p.Spec.Volumes = []v1.Volume{{Name: "logs", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(n.Root, "log", "pods")}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "logs", MountPath: "/logs"}}
	victim := kit.NewPod("victim", "log", "5")
	victim.Spec.Containers = append(victim.Spec.Containers, kit.NewContainer("other", "log", "5"))
	return []*v1.Pod{p, victim}
}

func lookAtReplacedLogs(n *kit.Node) {
	n.T.Helper()
	n.WaitRunning("victim")
	waitDone(n, "replaced", kit.StartTimeout)
	for _, container := range []string{"app", "other"} {
		if got := n.Berth("logs", "victim", "-c", container); strings.Contains(got.Out, "root:") || got.Code < 0 {
			n.T.Errorf("berth logs shows a file of the machine, or hangs: %s", got)
		}
	}
}

func lookAtMessages(n *kit.Node) {
	n.T.Helper()
	p := n.WaitPod("message", "has ended", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.Phase == v1.PodFailed) })
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated == nil {
			n.T.Errorf("%s has not ended", s.Name)
		} else if size := len(s.State.Terminated.Message); size == 0 || size > 4096 {
			n.T.Errorf("the message of %s has %d bytes", s.Name, size)
		}
	}
	if size := len(n.MustBerth("get", "pods", "-o", "json")); size > 100<<10 {
		n.T.Errorf("all pods have %d bytes", size)
	}
}

// loud returns a pod whose probes and hooks print as much as the runtime accepts, and a pod that prints
// without end.
func loud() *v1.Pod {
	says := func(mebibytes string) v1.ProbeHandler {
		return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "hostile", "output", mebibytes}}}
	}
	p := kit.NewPod("loud", "sleep")
	for _, name := range []string{"b", "c", "d"} {
		p.Spec.Containers = append(p.Spec.Containers, kit.NewContainer(name, "sleep"))
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.ReadinessProbe = &v1.Probe{ProbeHandler: says("7"), PeriodSeconds: 1, TimeoutSeconds: 5}
		c.LivenessProbe = &v1.Probe{ProbeHandler: says("0"), PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1000}
		c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: says("7").Exec}, PreStop: &v1.LifecycleHandler{Exec: says("7").Exec}}
	}
	return p
}

func listenToLoud(n *kit.Node) {
	n.T.Helper()
	p := n.WaitRunning("loud")["loud"]
	n.WaitEvent(p, "Unhealthy")
	// A client runs a command that prints without end, and does not read it.
	ctx, cancel := context.WithCancel(n.T.Context())
	n.T.Cleanup(cancel)
	for range 3 {
		cmd := exec.CommandContext(ctx, n.Program, "--root-dir", n.Root, "exec", "loud", "--", "/workload", "hostile", "output", "0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			n.T.Fatal(err)
		}
		if err := n.Inside(cmd.Start); err != nil {
			n.T.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			n.T.Fatal(err)
		}
		n.T.Cleanup(func() {
			cancel()
			_ = cmd.Wait() // it was killed
		})
	}
}

// waitDone waits until the first container of a pod reports that it is done.
func waitDone(n *kit.Node, name string, limit time.Duration) {
	n.T.Helper()
	n.WaitPod(name, "is done", limit, func(p v1.Pod) string {
		s := kit.AppStatus(p)
		if s.State.Running == nil {
			return "that it runs"
		}
		status, _ := n.Container(kit.ContainerIDs(p)["app"])
		end, err := lastBytes(status.LogPath, 100)
		if err != nil {
			return err.Error()
		}
		return kit.MissingUnless(strings.HasSuffix(end, "done\n"))
	})
}

// lastBytes is the end of a file, which may be large.
func lastBytes(path string, most int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	text := make([]byte, min(most, info.Size()))
	_, err = file.ReadAt(text, info.Size()-int64(len(text)))
	return string(text), err
}

// discard runs a command whose output is not looked at.
func discard(n *kit.Node, args ...string) {
	n.T.Helper()
	ctx, cancel := context.WithTimeout(n.T.Context(), kit.CommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.Program, append(args, "--root-dir", n.Root)...)
	if err := n.Inside(cmd.Run); err != nil {
		n.T.Errorf("berth %v: %v", args, err)
	}
}

// mustServe checks that pods and people get what they want: an answer of a pod that runs, its log, the state of
// all pods, what they use, and a new pod.
func mustServe(n *kit.Node) {
	n.T.Helper()
	served := n.WaitRunning("served")["served"]
	n.WaitAnswer(served.Status.PodIP+":8080", "/hostname")
	n.Apply("new.yaml", kit.NewPod("new", "log", "3"))
	n.WaitRunning("new")
	n.Wait("the log of the new pod", 10*time.Second, func() string { return kit.MissingUnless(n.MustBerth("logs", "new") == "line 1\nline 2\nline 3\n") })
	if out := n.MustBerth("get", "pods"); !strings.Contains(out, "served") {
		n.T.Errorf("berth get pods: %s", out)
	}
	if _, err := n.PodUsage("served"); err != nil {
		n.T.Error(err)
	}
	n.MustBerth("describe", "pod", "served")
	n.RemoveManifest("new.yaml")
	n.WaitGone("new")
}

// mustHaveOnly waits until nothing is left of any pod but these.
func mustHaveOnly(n *kit.Node, names ...string) {
	n.T.Helper()
	var keep []string
	for _, p := range n.WaitRunning(names...) {
		keep = append(keep, string(p.UID))
		for _, id := range kit.ContainerIDs(p) {
			keep = append(keep, id)
		}
	}
	n.Wait("nothing to be left of other pods", 10*time.Second, func() string {
		for _, dir := range []string{"pods", "log/pods"} {
			entries, err := os.ReadDir(filepath.Join(n.Root, dir))
			if err != nil {
				return err.Error()
			}
			if len(entries) != len(names) {
				return fmt.Sprint("files to be gone: ", entries)
			}
		}
		others := func(line string) bool {
			for _, k := range keep {
				if strings.Contains(line, k) {
					return false
				}
			}
			return true
		}
		pod := func(path string) bool { return strings.Contains(path, "/pod") && others(path) }
		left := append(kit.Filter(n.Cgroups(), pod), kit.Filter(n.Mounts(), func(m string) bool { return strings.Contains(m, "/pods/") && others(m) })...)
		if got := len(n.Sandboxes()); got != len(names) {
			left = append(left, fmt.Sprint(got, " sandboxes"))
		}
		for pid, text := range n.OwnProcesses() {
			// Commands of the test itself wait for it to read what they got.
			if strings.Contains(text, " hostile ") && !strings.HasPrefix(text, n.Program) {
				left = append(left, fmt.Sprint("process ", pid, " ", text))
			}
		}
		return strings.Join(left, ", ")
	})
}

// inSubtest is the same node in a test within the test.
func inSubtest(n *kit.Node, t *testing.T) *kit.Node {
	inner := *n
	inner.T = t
	return &inner
}
