//go:build real

package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

// newNodeOnDisk is a node whose root directory is a disk of its own.
func newNodeOnDisk(t *testing.T, megabytes string) *kit.Node {
	t.Helper()
	n := kit.NewNode(t)
	n.MountSmallDisk(megabytes)
	t.Cleanup(func() { // before the disk goes
		n.End()
		n.Agent = nil
	})
	n.AddImage("workload.tar", kit.WorkloadArchive(t, kit.WorkloadImage, ociarchive.Write))
	return n
}

// fill leaves no room on the disk of the root directory.
func fill(n *kit.Node) {
	n.T.Helper()
	file, err := os.OpenFile(filler(n), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.T.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			n.T.Fatalf("fill the disk: %v", err)
		}
	}
	if err := file.Sync(); err != nil {
		n.T.Fatal(err)
	}
}

func filler(n *kit.Node) string { return filepath.Join(n.Root, "filler") }

// forget removes files of the root directory that the agent is to write anew.
func forget(n *kit.Node, names ...string) {
	n.T.Helper()
	for _, name := range names {
		path := filepath.Join(n.Root, name)
		if _, err := os.Stat(path); err != nil {
			n.T.Errorf("the agent has written no %s: %v", name, err)
		}
		if err := os.RemoveAll(path); err != nil {
			n.T.Fatal(err)
		}
	}
}

// waitFiles waits until the agent has written these files.
func waitFiles(n *kit.Node, names ...string) {
	n.T.Helper()
	n.Wait("the agent to write "+strings.Join(names, ", "), 90*time.Second, func() string {
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(n.Root, name)); err != nil || info.Size() == 0 {
				return name
			}
		}
		return ""
	})
}

// logCount is how often the agent's log has a text, from a byte on.
func logCount(n *kit.Node, from int, text string) int {
	n.T.Helper()
	log, err := os.ReadFile(n.LogFile())
	if err != nil {
		n.T.Fatal(err)
	}
	return strings.Count(string(log[from:]), text)
}

func logLength(n *kit.Node) int {
	n.T.Helper()
	info, err := os.Stat(n.LogFile())
	if err != nil {
		n.T.Fatal(err)
	}
	return int(info.Size())
}

// mustSayOnce checks that each text is in the agent's log once, from a byte on.
func mustSayOnce(n *kit.Node, from int, texts ...string) {
	n.T.Helper()
	for _, text := range texts {
		if times := logCount(n, from, text); times != 1 {
			n.T.Errorf("the log says %d times, and not once: %s", times, text)
		}
	}
}

func TestAFullDisk(t *testing.T) {
	t.Parallel()
	// given a pod that runs, and a large image that no container uses
	n := newNodeOnDisk(t, "200")
	n.Configure("imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 99\nimageMinimumGCAge: 1ms\n")
	h := n.NewRegistry(false)
	spare := h.Push("spare:1", 20<<20)
	n.Apply("pod.yaml", kit.ReadablePod("web"))
	n.Start()
	n.WaitRunning("web")
	n.MustBerth("image", "pull", spare)
	before := n.Instances(n.Pods())
	pid := n.ContainerdPID()

	// when the agent is started on a full disk, without what it has written
	n.KillAgent()
	forget(n, "settings.json", "image_manager/used.json")
	fill(n)
	from := logLength(n)
	n.Start()

	// then it finds the pod as it was
	n.WaitRunning("web")
	n.MustKeepInstances(before)
	if n.ContainerdPID() != pid {
		t.Error("containerd is another one")
	}
	// and makes room: unused images are removed
	n.Wait("the spare image to go", 60*time.Second, func() string {
		return kit.MissingUnless(!strings.Contains(n.MustBerth("image", "ls"), "/spare"))
	})
	// and writes then what it could not write, and has said so once
	waitFiles(n, "settings.json", "image_manager/used.json")
	mustSayOnce(n, from, "can't write the settings", "wrote the settings", "can't write when images were used", "wrote when images were used")

	// when the disk is full again, nothing can be spared, and all is killed
	fill(n)
	n.KillAgent()
	kit.KillProcess(t, pid)
	from = logLength(n)
	n.Start()

	// then the pod is as it was, and containerd is another one
	n.WaitRunning("web")
	n.MustKeepInstances(before)
	n.WaitAnswer(n.Pod("web").Status.PodIP+":7070", "/env")
	mustSayOnce(n, from, "can't write the settings", "containerd is given the reserve", "can't write the reserve")

	// when there is room, then all is written, and more pods run
	if err := os.Remove(filler(n)); err != nil {
		t.Fatal(err)
	}
	waitFiles(n, "run/reserve", "settings.json")
	n.Wait("the pid file to be written", 90*time.Second, func() string { return kit.MissingUnless(n.ContainerdPID() != pid) })
	mustSayOnce(n, from, "wrote the settings", "wrote the reserve")
	n.Apply("more.yaml", kit.ReadablePod("more"))
	n.WaitRunning("web", "more")
	n.MustKeepInstances(before)
	// and what happened meanwhile is known after a restart
	n.Stop()
	n.Start()
	n.WaitRunning("web", "more")
	n.MustKeepInstances(before)
	if events := n.Events(n.Pod("web")); len(events) == 0 {
		t.Error("there are no events of it")
	}
}

// remount changes how the root directory, or directories below it, are mounted.
func remount(n *kit.Node, options string, dirs ...string) {
	n.T.Helper()
	for _, dir := range dirs {
		kit.MustRun(n.T, "mount", "-o", "remount,"+options, filepath.Join(n.Root, dir))
	}
}

func TestAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	// given a pod that runs, whose agent was killed
	n := newNodeOnDisk(t, "200")
	n.Apply("pod.yaml", kit.ReadablePod("web"))
	n.Start()
	n.WaitRunning("web")
	before := n.Instances(n.Pods())
	pid := n.ContainerdPID()
	n.KillAgent()
	forget(n, "settings.json")

	// when an agent is started on a disk that has become read-only. What containerd has open
	// would keep the kernel from that, so all is mounted once more, on top.
	kit.MustRun(t, "mount", "--rbind", n.Root, n.Root)
	onTop := true
	reveal := func() {
		if onTop {
			kit.MustRun(t, "umount", "--lazy", n.Root)
		}
		onTop = false
	}
	t.Cleanup(reveal)
	kit.MustRun(t, "mount", "--make-rprivate", n.Root)
	remount(n, "bind,ro", "", "pods", "plugins")
	from := logLength(n)
	n.Start()

	// then it finds the pod as it was, and commands find the agent
	n.WaitRunning("web")
	n.MustKeepInstances(before)
	if n.ContainerdPID() != pid {
		t.Error("containerd is another one")
	}
	if out := n.MustBerth("get", "pods"); !strings.Contains(out, "web") {
		t.Errorf("get pods: %s", out)
	}
	mustSayOnce(n, from, "can't write the settings", "the local socket can't be made in the root directory")
	// and no other agent may use the root
	if got := n.RunCommand(exec.Command(n.Program, n.RunArgs()...)); got.Code == 0 || !strings.Contains(got.Stderr, fmt.Sprintf("another berth (pid %d)", n.Agent.Cmd.Process.Pid)) {
		t.Errorf("a second agent: %s", got)
	}

	// when the disk can be written again, then that is done, by the same agent
	reveal()
	waitFiles(n, "settings.json")
	mustSayOnce(n, from, "wrote the settings")
	n.MustKeepInstances(before)

	// and the next one is where it always was
	n.Stop()
	n.Start()
	n.WaitRunning("web")
	n.MustKeepInstances(before)
	waitFiles(n, "settings.json")
}

func TestADiskThatIsReadOnlyWithoutARuntime(t *testing.T) {
	t.Parallel()
	// given a pod that runs, whose agent and runtime were killed, on a read-only disk
	n := newNodeOnDisk(t, "200")
	n.Apply("pod.yaml", kit.ReadablePod("web"))
	n.Start()
	before := n.Instances(n.WaitRunning("web"))
	address := n.Pod("web").Status.PodIP + ":7070"
	pid := n.ContainerdPID()
	n.KillAgent()
	kit.KillProcess(t, pid)
	n.Wait("containerd to be gone", kit.StartTimeout, func() string { return kit.MissingUnless(unix.Kill(pid, 0) != nil) })
	remount(n, "ro", "")

	// when an agent is started, then it waits for better times, and says so once; the pod goes on
	from := logLength(n)
	n.Launch(n.RunArgs()...)
	n.Wait("the agent to try and start containerd", kit.StartTimeout, func() string { return kit.MissingUnless(logCount(n, from, "containerd does not come up") == 1) })
	n.WaitAnswer(address, "/env")

	// when the disk can be written, then all is as it was
	remount(n, "rw", "")
	n.WaitAgent()
	n.WaitRunning("web")
	n.MustKeepInstances(before)
	mustSayOnce(n, from, "containerd does not come up")
}

func TestAStartThatFailsLeavesNoRuntime(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	busy, err := n.Listen(t.Context(), "tcp4", "127.0.0.1:18080")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	n.ReplaceFile(filepath.Join(n.Dir, "wrong"), []byte("this is no kubeconfig"))
	n.Configure("healthzPort: 18080\n")
	kit.MustRun(t, "mv", n.Config, filepath.Join(n.Dir, "busy.yaml"))
	n.Configure("")
	providers := []string{"--image-credential-provider-config", filepath.Join(n.Dir, "none"), "--image-credential-provider-bin-dir", n.Dir}
	fails := func(why string, args ...string) {
		t.Helper()
		got := n.RunCommand(exec.Command(n.Program, n.RunArgs(args...)...))
		if got.Code == 0 || !strings.Contains(got.Stderr, why) {
			t.Errorf("run %v: %s, want %q", args, got, why)
		}
	}

	// Whatever a start fails by, no process is left of it.
	for _, test := range []struct {
		why  string
		args []string
	}{
		{"does not exist", []string{"--kubeconfig", filepath.Join(n.Dir, "none")}},
		{"kubeconfig", []string{"--kubeconfig", filepath.Join(n.Dir, "wrong")}},
		{"address already in use", []string{"--config", filepath.Join(n.Dir, "busy.yaml")}},
		{"none: no such file", providers},
	} {
		fails(test.why, test.args...)
		for pid, text := range n.OwnProcesses() {
			t.Errorf("run %v leaves process %d: %s", test.args, pid, text)
		}
	}

	// A runtime that is there is left alone, and so are pods without one.
	n.Apply("pod.yaml", kit.ReadablePod("web"))
	n.Start()
	before := n.Instances(n.WaitRunning("web"))
	pid := n.ContainerdPID()
	n.KillAgent()
	fails("none: no such file", providers...)
	if n.ContainerdPID() != pid || unix.Kill(pid, 0) != nil {
		t.Error("the runtime that was there is gone")
	}
	kit.KillProcess(t, pid)
	n.Wait("containerd to be gone", kit.StartTimeout, func() string { return kit.MissingUnless(unix.Kill(pid, 0) != nil) })
	fails("none: no such file", providers...)
	n.Start()
	n.WaitRunning("web")
	n.MustKeepInstances(before)
}

func TestADeadPipeDoesNotEndTheAgent(t *testing.T) {
	t.Parallel()
	// given an agent whose output is read
	n := kit.NewNode(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := &kit.Agent{Cmd: exec.Command(n.Program, n.RunArgs()...), Ended: make(chan struct{})}
	a.Cmd.Stdout, a.Cmd.Stderr = write, write
	if err := n.Inside(a.Cmd.Start); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = a.Cmd.Wait() // how it ended is in the process state
		close(a.Ended)
	}()
	n.Agent = a
	_ = write.Close()

	// when the reader goes, then the agent works on, and ends in order
	_ = read.Close()
	n.WaitAgent()
	n.Apply("pod.yaml", kit.ReadablePod("web"))
	n.WaitRunning("web")
	n.Stop()
}
