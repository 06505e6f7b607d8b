//go:build real

package kit

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// AgentProc is a file that the kernel keeps of the agent.
func (n *Node) AgentProc(name string) string {
	n.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", n.Agent.Cmd.Process.Pid, name))
	if err != nil {
		n.T.Fatal(err)
	}
	return string(text)
}

func (n *Node) Atoi(text string) int {
	n.T.Helper()
	v, err := strconv.Atoi(text)
	if err != nil {
		n.T.Fatal(err)
	}
	return v
}

// MustRun runs a command on the machine, and returns its output.
func MustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// KillProcess sends SIGKILL.
func KillProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
