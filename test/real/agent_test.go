//go:build real

package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
)

// agent is one running `berth run`.
type agent struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it is gone, and cmd.ProcessState is set
}

// kill ends the agent as the kernel does when memory runs out. It is fine if it
// is gone already.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	<-a.ended
}

func (n *node) logFile() string { return filepath.Join(n.dir, "berth.log") }

// runArgs is the command line of this node's agent.
func (n *node) runArgs(more ...string) []string {
	return append([]string{
		"run", "--root-dir", n.root, "--manifests", n.manifests, "--pod-cidr", n.podCIDR,
		"--config", n.config, "--hostname-override", nodeName,
	}, more...)
}

// start runs the agent, and returns once the container runtime is up and has the images.
func (n *node) start(more ...string) {
	n.t.Helper()
	n.startWithoutRuntime(more...)
	c, err := client.New(n.root)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	n.wait("the container runtime to be up", startLimit, func() string {
		if _, err := c.Images(n.t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// startWithoutRuntime runs the agent, and returns once it answers.
func (n *node) startWithoutRuntime(more ...string) {
	n.t.Helper()
	n.launch(n.runArgs(more...)...)
	n.awaitAgent()
}

// whyNotReady is why the node is not ready: nothing if it is.
func (n *node) whyNotReady() string {
	n.t.Helper()
	c, err := client.New(n.root)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	machine, err := c.Machine(n.t.Context())
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

// launch runs the agent, and does not wait.
func (n *node) launch(args ...string) {
	n.t.Helper()
	n.launchCommand(exec.Command(n.program, args...))
}

// launchCommand runs the agent by a command that becomes it.
func (n *node) launchCommand(cmd *exec.Cmd) {
	n.t.Helper()
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	a := &agent{cmd: cmd, ended: make(chan struct{})}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := n.Inside(a.cmd.Start); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		_ = a.cmd.Wait() // how it ended is in the process state
		close(a.ended)
	}()
	n.agent = a
}

func (n *node) awaitAgent() {
	n.t.Helper()
	c, err := client.New(n.root)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	n.wait("the agent to answer", startLimit, func() string {
		select {
		case <-n.agent.ended:
			n.t.Fatalf("the agent ended: %s", n.agent.cmd.ProcessState)
		default:
		}
		if _, err := c.Version(n.t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// stop asks the agent to end. Its pods go on.
func (n *node) stop() {
	n.t.Helper()
	if err := n.agent.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	select {
	case <-n.agent.ended:
	case <-time.After(20 * time.Second):
		n.t.Fatal("the agent does not end on SIGTERM")
	}
	if code := n.agent.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Fatalf("the agent ended with code %d", code)
	}
}

// crash kills the agent and nothing else.
func (n *node) crash() { n.agent.kill() }

func (n *node) down() {
	n.t.Helper()
	if got := n.berth("down"); got.code != 0 {
		n.t.Fatalf("berth down: %s", got)
	}
	select {
	case <-n.agent.ended:
	case <-time.After(time.Second):
		n.t.Fatal("the agent runs on after berth down")
	}
}

// result is what a command did.
type result struct {
	code        int
	out, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("%s%s(code %d)", r.out, r.stderr, r.code)
}

// commandLimit is enough for every command that ends by itself.
const commandLimit = time.Minute

// berth runs a command on the node's root directory.
func (n *node) berth(args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	return n.run(exec.CommandContext(ctx, n.program, append(args, "--root-dir", n.root)...))
}

// run runs a command in the node's network.
func (n *node) run(cmd *exec.Cmd) result {
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := n.Inside(cmd.Run)
	r := result{out: out.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code, r.stderr = -1, r.stderr+err.Error()
	}
	return r
}

// must is berth for commands that have to succeed. It returns what was printed.
func (n *node) must(args ...string) string {
	n.t.Helper()
	got := n.berth(args...)
	if got.code != 0 {
		n.t.Fatalf("berth %v: %s", args, got)
	}
	return got.out
}
