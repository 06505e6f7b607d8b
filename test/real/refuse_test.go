//go:build real

package real

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mustRefuse runs `berth run`, and wants one line that says all of this.
func (n *node) mustRefuse(cmd *exec.Cmd, says ...string) {
	n.t.Helper()
	got := n.run(cmd)
	if got.code == 0 || got.out != "" || strings.Count(got.stderr, "\n") != 1 {
		n.t.Errorf("want one line and a code that is not 0, got: %s", got)
	}
	for _, s := range says {
		if !strings.Contains(got.stderr, s) {
			n.t.Errorf("nothing is said of %s: %s", s, got)
		}
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	t.Parallel()
	// given an agent with a pod
	n := newNode(t)
	n.apply("web.yaml", newPod("web", "sleep"))
	n.start()
	before := n.lives(n.waitRunning("web"))

	// when another one is started on the same root, then it is refused
	n.mustRefuse(exec.Command(n.program, n.runArgs()...), n.root, fmt.Sprintf("pid %d", n.agent.cmd.Process.Pid))

	// and the first one is none the worse for it
	n.mustLiveOn(before)
	n.apply("more.yaml", newPod("more", "sleep"))
	n.waitRunning("web", "more")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	run := func() *exec.Cmd { return exec.Command(n.program, n.runArgs()...) }

	// when it is not run by root (who may not even read where the program is)
	n.program = copyOf(t, n.program, filepath.Join(n.dir, "berth"))
	if err := os.Chmod(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	asNobody := run()
	asNobody.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	asNobody.Dir = "/"
	n.mustRefuse(asNobody, "root")

	// when somebody else answers at its socket
	l, err := net.Listen("unix", filepath.Join(n.root, "berth.sock"))
	if err != nil {
		t.Fatal(err)
	}
	n.mustRefuse(run(), filepath.Join(n.root, "berth.sock"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	// when the configuration has a field that does not exist
	n.configure("cgroupRooot: /x\n")
	n.mustRefuse(run(), n.config, "cgroupRooot")

	// when an address range is no range, or a runtime is no socket
	n.configure("")
	n.mustRefuse(exec.Command(n.program, n.runArgs("--pod-cidr", "10.0.0.0")...), "--pod-cidr", "10.0.0.0")
	n.mustRefuse(exec.Command(n.program, n.runArgs("--container-runtime-endpoint", "tcp://x")...), "--container-runtime-endpoint", "tcp://x")

	// then nothing was started
	if left := n.processes(); len(left) > 0 {
		t.Errorf("these run: %v", left)
	}
}

func TestFieldNotHonouredIsNamed(t *testing.T) {
	t.Parallel()
	// given a field that exists, and has no effect yet
	n := newNode(t)
	n.configure("topologyManagerPolicy: best-effort\n")

	// when the agent starts, then it works, and names the field
	n.start()
	found := filter(lines(tail(n.logFile(), 1<<20)), func(line string) bool {
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
