//go:build real

package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
)

// Agent is one running `berth run`.
type Agent struct {
	Cmd   *exec.Cmd
	Ended chan struct{} // closed once it is gone, and cmd.ProcessState is set
}

// Kill ends the agent as the kernel does when memory runs out. It is fine if it
// is gone already.
func (a *Agent) Kill() {
	_ = a.Cmd.Process.Kill()
	<-a.Ended
}

func (n *Node) LogFile() string { return filepath.Join(n.Dir, "berth.log") }

// RunArgs is the command line of this node's agent.
func (n *Node) RunArgs(more ...string) []string {
	return append([]string{
		"run", "--root-dir", n.Root, "--manifests", n.Manifests, "--pod-cidr", n.PodCIDR,
		"--config", n.Config, "--hostname-override", NodeName,
	}, more...)
}

// Start runs the agent, and returns once the container runtime is up and has the images.
func (n *Node) Start(more ...string) {
	n.T.Helper()
	n.StartWithoutRuntime(more...)
	c, err := client.New(n.Root)
	if err != nil {
		n.T.Fatal(err)
	}
	defer c.Close()
	n.Wait("the container runtime to be up", StartTimeout, func() string {
		if _, err := c.Images(n.T.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// StartWithoutRuntime runs the agent, and returns once it answers.
func (n *Node) StartWithoutRuntime(more ...string) {
	n.T.Helper()
	n.Launch(n.RunArgs(more...)...)
	n.WaitAgent()
}

// NotReadyReason is why the node is not ready: nothing if it is.
func (n *Node) NotReadyReason() string {
	n.T.Helper()
	c, err := client.New(n.Root)
	if err != nil {
		n.T.Fatal(err)
	}
	defer c.Close()
	machine, err := c.Machine(n.T.Context())
	if err != nil {
		return err.Error()
	}
	for _, c := range machine.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// Launch runs the agent, and does not wait.
func (n *Node) Launch(args ...string) {
	n.T.Helper()
	n.LaunchCommand(exec.Command(n.Program, args...))
}

// LaunchCommand runs the agent by a command that becomes it.
func (n *Node) LaunchCommand(cmd *exec.Cmd) {
	n.T.Helper()
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.T.Fatal(err)
	}
	defer log.Close()
	a := &Agent{Cmd: cmd, Ended: make(chan struct{})}
	a.Cmd.Stdout, a.Cmd.Stderr = log, log
	if err := n.Inside(a.Cmd.Start); err != nil {
		n.T.Fatal(err)
	}
	go func() {
		_ = a.Cmd.Wait() // how it ended is in the process state
		close(a.Ended)
	}()
	n.Agent = a
}

func (n *Node) WaitAgent() {
	n.T.Helper()
	c, err := client.New(n.Root)
	if err != nil {
		n.T.Fatal(err)
	}
	defer c.Close()
	n.Wait("the agent to answer", StartTimeout, func() string {
		select {
		case <-n.Agent.Ended:
			n.T.Fatalf("the agent ended: %s", n.Agent.Cmd.ProcessState)
		default:
		}
		if _, err := c.Version(n.T.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// Stop asks the agent to end. Its pods go on.
func (n *Node) Stop() {
	n.T.Helper()
	if err := n.Agent.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.T.Fatal(err)
	}
	select {
	case <-n.Agent.Ended:
	case <-time.After(20 * time.Second):
		n.T.Fatal("the agent does not end on SIGTERM")
	}
	if code := n.Agent.Cmd.ProcessState.ExitCode(); code != 0 {
		n.T.Fatalf("the agent ended with code %d", code)
	}
}

// KillAgent kills the agent and nothing else.
func (n *Node) KillAgent() { n.Agent.Kill() }

func (n *Node) Down() {
	n.T.Helper()
	if got := n.Berth("down"); got.Code != 0 {
		n.T.Fatalf("berth down: %s", got)
	}
	select {
	case <-n.Agent.Ended:
	case <-time.After(time.Second):
		n.T.Fatal("the agent runs on after berth down")
	}
}

// Result is the output and the exit code of a command.
type Result struct {
	Code        int
	Out, Stderr string
}

func (r Result) String() string {
	return fmt.Sprintf("%s%s(code %d)", r.Out, r.Stderr, r.Code)
}

// CommandTimeout is enough for every command that ends by itself.
const CommandTimeout = time.Minute

// Berth runs a command on the node's root directory.
func (n *Node) Berth(args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), CommandTimeout)
	defer cancel()
	return n.RunCommand(exec.CommandContext(ctx, n.Program, append(args, "--root-dir", n.Root)...))
}

// RunCommand runs a command in the node's network.
func (n *Node) RunCommand(cmd *exec.Cmd) Result {
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := n.Inside(cmd.Run)
	r := Result{Out: out.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code, r.Stderr = -1, r.Stderr+err.Error()
	}
	return r
}

// MustBerth is berth for commands that have to succeed. It returns what was printed.
func (n *Node) MustBerth(args ...string) string {
	n.T.Helper()
	got := n.Berth(args...)
	if got.Code != 0 {
		n.T.Fatalf("berth %v: %s", args, got)
	}
	return got.Out
}

// BerthWithInput is berth for a command that reads in.
func (n *Node) BerthWithInput(in io.Reader, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), CommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.Program, append([]string{"--root-dir", n.Root}, args...)...)
	cmd.Stdin = in
	return n.RunCommand(cmd)
}

// ExpectBerth checks what a command does. Of stderr, a part is enough.
func (n *Node) ExpectBerth(in string, args []string, code int, out, stderr string) {
	n.T.Helper()
	got := n.BerthWithInput(strings.NewReader(in), args...)
	if got.Code != code || got.Out != out || !strings.Contains(got.Stderr, stderr) {
		n.T.Errorf("berth %q: got %.2000s, want %d, %.200q, %q", args, got, code, out, stderr)
	}
}
