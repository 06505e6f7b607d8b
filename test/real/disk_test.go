//go:build real

package real

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
)

// newNodeOnDisk is a node whose root directory is a disk of its own.
func newNodeOnDisk(t *testing.T, megabytes string) *node {
	t.Helper()
	n := newNode(t)
	n.onSmallDisk(megabytes)
	t.Cleanup(func() { // before the disk goes
		n.end()
		n.agent = nil
	})
	n.drop("workload.tar", archive(t, workloadImage, ociarchive.Write))
	return n
}

// fill leaves no room on the disk of the root directory.
func (n *node) fill() {
	n.t.Helper()
	file, err := os.OpenFile(n.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			n.t.Fatalf("fill the disk: %v", err)
		}
	}
	if err := file.Sync(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) filler() string { return filepath.Join(n.root, "filler") }

// forget removes files of the root directory that the agent is to write anew.
func (n *node) forget(names ...string) {
	n.t.Helper()
	for _, name := range names {
		path := filepath.Join(n.root, name)
		if _, err := os.Stat(path); err != nil {
			n.t.Errorf("the agent has written no %s: %v", name, err)
		}
		if err := os.RemoveAll(path); err != nil {
			n.t.Fatal(err)
		}
	}
}

// waitFiles waits until the agent has written these.
func (n *node) waitFiles(names ...string) {
	n.t.Helper()
	n.wait("the agent to write "+strings.Join(names, ", "), 90*time.Second, func() string {
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(n.root, name)); err != nil || info.Size() == 0 {
				return name
			}
		}
		return ""
	})
}

// said is how often the agent's log has a text, from a byte on.
func (n *node) said(from int, text string) int {
	n.t.Helper()
	log, err := os.ReadFile(n.logFile())
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Count(string(log[from:]), text)
}

func (n *node) logLength() int {
	n.t.Helper()
	info, err := os.Stat(n.logFile())
	if err != nil {
		n.t.Fatal(err)
	}
	return int(info.Size())
}

// mustSayOnce checks that each text is in the agent's log once, from a byte on.
func (n *node) mustSayOnce(from int, texts ...string) {
	n.t.Helper()
	for _, text := range texts {
		if times := n.said(from, text); times != 1 {
			n.t.Errorf("the log says %d times, and not once: %s", times, text)
		}
	}
}

func TestAFullDisk(t *testing.T) {
	t.Parallel()
	// given a pod that runs, and a large image that nobody uses
	n := newNodeOnDisk(t, "200")
	n.configure("imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 99\nimageMinimumGCAge: 1ms\n")
	h := n.newHub(false)
	spare := h.push("spare:1", 20<<20)
	n.apply("pod.yaml", open("web"))
	n.start()
	n.waitRunning("web")
	n.must("image", "pull", spare)
	before := n.lives(n.pods())
	pid := n.containerdPID()

	// when the agent is started on a full disk, without what it has written
	n.crash()
	n.forget("settings.json", "image_manager/used.json")
	n.fill()
	from := n.logLength()
	n.start()

	// then it finds the pod as it was
	n.waitRunning("web")
	n.mustLiveOn(before)
	if n.containerdPID() != pid {
		t.Error("containerd is another one")
	}
	// and makes room: what nobody uses goes
	n.wait("the spare image to go", 60*time.Second, func() string {
		return boolText(!strings.Contains(n.must("image", "ls"), "/spare"))
	})
	// and writes then what it could not write, and has said so once
	n.waitFiles("settings.json", "image_manager/used.json")
	n.mustSayOnce(from, "can't write the settings", "wrote the settings", "can't write when images were used", "wrote when images were used")

	// when the disk is full again, nothing can be spared, and all is killed
	n.fill()
	n.crash()
	kill(t, pid)
	from = n.logLength()
	n.start()

	// then the pod is as it was, and containerd is another one
	n.waitRunning("web")
	n.mustLiveOn(before)
	n.waitAnswer(n.pod("web").Status.PodIP+":7070", "/env")
	n.mustSayOnce(from, "can't write the settings", "containerd is given the reserve", "can't write the reserve")

	// when there is room, then all is written, and more pods run
	if err := os.Remove(n.filler()); err != nil {
		t.Fatal(err)
	}
	n.waitFiles("run/reserve", "settings.json")
	n.wait("the pid file to be written", 90*time.Second, func() string { return boolText(n.containerdPID() != pid) })
	n.mustSayOnce(from, "wrote the settings", "wrote the reserve")
	n.apply("more.yaml", open("more"))
	n.waitRunning("web", "more")
	n.mustLiveOn(before)
	// and what happened meanwhile is known after a restart
	n.stop()
	n.start()
	n.waitRunning("web", "more")
	n.mustLiveOn(before)
	if events := n.eventsOf(n.pod("web")); len(events) == 0 {
		t.Error("there are no events of it")
	}
}

func mustExec(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// remount changes how the root directory, or directories below it, are mounted.
func (n *node) remount(options string, dirs ...string) {
	n.t.Helper()
	for _, dir := range dirs {
		mustExec(n.t, "mount", "-o", "remount,"+options, filepath.Join(n.root, dir))
	}
}

func TestAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	// given a pod that runs, whose agent was killed
	n := newNodeOnDisk(t, "200")
	n.apply("pod.yaml", open("web"))
	n.start()
	n.waitRunning("web")
	before := n.lives(n.pods())
	pid := n.containerdPID()
	n.crash()
	n.forget("settings.json")

	// when an agent is started on a disk that has become read-only. What containerd has open
	// would keep the kernel from that, so all is mounted once more, on top.
	mustExec(t, "mount", "--rbind", n.root, n.root)
	onTop := true
	reveal := func() {
		if onTop {
			mustExec(t, "umount", "--lazy", n.root)
		}
		onTop = false
	}
	t.Cleanup(reveal)
	mustExec(t, "mount", "--make-rprivate", n.root)
	n.remount("bind,ro", "", "pods", "plugins")
	from := n.logLength()
	n.start()

	// then it finds the pod as it was, and commands find the agent
	n.waitRunning("web")
	n.mustLiveOn(before)
	if n.containerdPID() != pid {
		t.Error("containerd is another one")
	}
	if out := n.must("get", "pods"); !strings.Contains(out, "web") {
		t.Errorf("get pods: %s", out)
	}
	n.mustSayOnce(from, "can't write the settings", "the local socket can't be made in the root directory")
	// and nobody else may work there
	if got := n.run(exec.Command(n.program, n.runArgs()...)); got.code == 0 || !strings.Contains(got.stderr, fmt.Sprintf("another berth (pid %d)", n.agent.cmd.Process.Pid)) {
		t.Errorf("a second agent: %s", got)
	}

	// when the disk can be written again, then that is done, by the same agent
	reveal()
	n.waitFiles("settings.json")
	n.mustSayOnce(from, "wrote the settings")
	n.mustLiveOn(before)

	// and the next one is where it always was
	n.stop()
	n.start()
	n.waitRunning("web")
	n.mustLiveOn(before)
	n.waitFiles("settings.json")
}

func TestADiskThatIsReadOnlyWithoutARuntime(t *testing.T) {
	t.Parallel()
	// given a pod that runs, whose agent and runtime were killed, on a read-only disk
	n := newNodeOnDisk(t, "200")
	n.apply("pod.yaml", open("web"))
	n.start()
	before := n.lives(n.waitRunning("web"))
	address := n.pod("web").Status.PodIP + ":7070"
	pid := n.containerdPID()
	n.crash()
	kill(t, pid)
	n.wait("containerd to be gone", startLimit, func() string { return boolText(unix.Kill(pid, 0) != nil) })
	n.remount("ro", "")

	// when an agent is started, then it waits for better times, and says so once; the pod goes on
	from := n.logLength()
	n.launch(n.runArgs()...)
	n.wait("the agent to try and start containerd", startLimit, func() string { return boolText(n.said(from, "containerd does not come up") == 1) })
	n.waitAnswer(address, "/env")

	// when the disk can be written, then all is as it was
	n.remount("rw", "")
	n.awaitAgent()
	n.waitRunning("web")
	n.mustLiveOn(before)
	n.mustSayOnce(from, "containerd does not come up")
}

func TestAStartThatFailsLeavesNoRuntime(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	busy, err := n.Listen(t.Context(), "tcp4", "127.0.0.1:18080")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	n.put(filepath.Join(n.dir, "wrong"), []byte("this is no kubeconfig"))
	n.configure("healthzPort: 18080\n")
	mustExec(t, "mv", n.config, filepath.Join(n.dir, "busy.yaml"))
	n.configure("")
	providers := []string{"--image-credential-provider-config", filepath.Join(n.dir, "none"), "--image-credential-provider-bin-dir", n.dir}
	fails := func(why string, args ...string) {
		t.Helper()
		got := n.run(exec.Command(n.program, n.runArgs(args...)...))
		if got.code == 0 || !strings.Contains(got.stderr, why) {
			t.Errorf("run %v: %s, want %q", args, got, why)
		}
	}

	// Whatever a start fails by, no process is left of it.
	for _, test := range []struct {
		why  string
		args []string
	}{
		{"does not exist", []string{"--kubeconfig", filepath.Join(n.dir, "none")}},
		{"kubeconfig", []string{"--kubeconfig", filepath.Join(n.dir, "wrong")}},
		{"address already in use", []string{"--config", filepath.Join(n.dir, "busy.yaml")}},
		{"none: no such file", providers},
	} {
		fails(test.why, test.args...)
		for pid, text := range n.processes() {
			t.Errorf("run %v leaves process %d: %s", test.args, pid, text)
		}
	}

	// A runtime that is there is left alone, and so are pods without one.
	n.apply("pod.yaml", open("web"))
	n.start()
	before := n.lives(n.waitRunning("web"))
	pid := n.containerdPID()
	n.crash()
	fails("none: no such file", providers...)
	if n.containerdPID() != pid || unix.Kill(pid, 0) != nil {
		t.Error("the runtime that was there is gone")
	}
	kill(t, pid)
	n.wait("containerd to be gone", startLimit, func() string { return boolText(unix.Kill(pid, 0) != nil) })
	fails("none: no such file", providers...)
	n.start()
	n.waitRunning("web")
	n.mustLiveOn(before)
}

func TestADeadPipeDoesNotEndTheAgent(t *testing.T) {
	t.Parallel()
	// given an agent whose output somebody reads
	n := newNode(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{cmd: exec.Command(n.program, n.runArgs()...), ended: make(chan struct{})}
	a.cmd.Stdout, a.cmd.Stderr = write, write
	if err := n.Inside(a.cmd.Start); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = a.cmd.Wait() // how it ended is in the process state
		close(a.ended)
	}()
	n.agent = a
	_ = write.Close()

	// when the reader goes, then the agent works on, and ends in order
	_ = read.Close()
	n.awaitAgent()
	n.apply("pod.yaml", open("web"))
	n.waitRunning("web")
	n.stop()
}
