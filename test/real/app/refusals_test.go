//go:build real

package app

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/real/kit"
)

// mustRefuse runs `berth run`, and expects one line of error that contains all of says.
func mustRefuse(n *kit.Node, cmd *exec.Cmd, says ...string) {
	n.T.Helper()
	got := n.RunCommand(cmd)
	if got.Code == 0 || got.Out != "" || strings.Count(got.Stderr, "\n") != 1 {
		n.T.Errorf("want one line and a code that is not 0, got: %s", got)
	}
	for _, s := range says {
		if !strings.Contains(got.Stderr, s) {
			n.T.Errorf("nothing is said of %s: %s", s, got)
		}
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	t.Parallel()
	// given an agent with a pod
	n := kit.NewNode(t)
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	before := n.Instances(n.WaitRunning("web"))

	// when another one is started on the same root, then it is refused
	mustRefuse(n, exec.Command(n.Program, n.RunArgs()...), n.Root, fmt.Sprintf("pid %d", n.Agent.Cmd.Process.Pid))

	// and the first one is none the worse for it
	n.MustKeepInstances(before)
	n.Apply("more.yaml", kit.NewPod("more", "sleep"))
	n.WaitRunning("web", "more")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	run := func() *exec.Cmd { return exec.Command(n.Program, n.RunArgs()...) }

	// when it is not run by root (who may not even read where the program is)
	n.Program = copyOf(t, n.Program, filepath.Join(n.Dir, "berth"))
	if err := os.Chmod(n.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	asNobody := run()
	asNobody.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	asNobody.Dir = "/"
	mustRefuse(n, asNobody, "root")

	// when another program answers at its socket
	l, err := net.Listen("unix", filepath.Join(n.Root, "berth.sock"))
	if err != nil {
		t.Fatal(err)
	}
	mustRefuse(n, run(), filepath.Join(n.Root, "berth.sock"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	// when the configuration has a field that does not exist
	n.Configure("cgroupRooot: /x\n")
	mustRefuse(n, run(), n.Config, "cgroupRooot")

	// when an address range is no range, or a runtime is no socket
	n.Configure("")
	mustRefuse(n, exec.Command(n.Program, n.RunArgs("--pod-cidr", "10.0.0.0")...), "--pod-cidr", "10.0.0.0")
	mustRefuse(n, exec.Command(n.Program, n.RunArgs("--container-runtime-endpoint", "tcp://x")...), "--container-runtime-endpoint", "tcp://x")

	// then nothing was started
	if left := n.OwnProcesses(); len(left) > 0 {
		t.Errorf("these run: %v", left)
	}
}

func TestFieldNotHonouredIsNamed(t *testing.T) {
	t.Parallel()
	// given a field that exists, and has no effect yet
	n := kit.NewNode(t)
	n.Configure("topologyManagerPolicy: best-effort\n")

	// when the agent starts, then it works, and names the field
	n.Start()
	found := kit.Filter(kit.Lines(kit.Tail(n.LogFile(), 1<<20)), func(line string) bool {
		return strings.Contains(line, "WARN") && strings.Contains(line, "topologyManagerPolicy")
	})
	if len(found) != 1 {
		t.Errorf("%d warnings name the field", len(found))
	}
}

func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}
