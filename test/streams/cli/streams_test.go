// Package cli_test checks the commands that stream: exec, attach, cp and debug.
package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api/localapi"
	"berth/internal/cli/clitest"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/pods"
	"berth/test/streams"
)

func TestMain(m *testing.M) { clitest.Main(m) }

func root() *cobra.Command { return cmdutil.NewRoot("client-version", pods.Commands()) }

// startNode starts an agent in whose containers run runs.
func startNode(t *testing.T, run func(context.Context, streams.Process) error) *clitest.Agent {
	t.Helper()
	n := &streams.Node{Run: run}
	return clitest.StartAgent(t, root, func(c *localapi.Config) { c.Node = n.Handler() })
}

// onThisMachine runs commands in a folder, as if that were a container.
func onThisMachine(folder string) func(context.Context, streams.Process) error {
	return func(ctx context.Context, p streams.Process) error { return streams.OnThisMachine(ctx, folder, p) }
}

func TestExec(t *testing.T) {
	a := startNode(t, onThisMachine("/"))
	waits := clitest.RunningPod("y", "waits", "app")
	waits.Status.ContainerStatuses[0].State = clitest.WaitingState("CrashLoopBackOff")
	a.Set(nil, clitest.RunningPod("x", "web", "app", "side"), clitest.RunningPod("y", "one", "app"), waits)
	cases := []struct {
		args []string
		want clitest.Result
	}{
		{[]string{"exec", "one", "--", "echo", "-n", "a b"}, clitest.Result{Out: "a b"}},
		{[]string{"exec", "pod/one-node-1", "-n", "y", "--", "echo", "hello"}, clitest.Result{Out: "hello\n"}},
		{[]string{"exec", "web", "-c", "side", "--", "sh", "-c", "echo out; echo err >&2; exit 42"}, clitest.Result{Code: 42, Out: "out\n", Stderr: "err\n"}},
		{[]string{"exec", "web", "--", "true"}, clitest.Result{Stderr: "Defaulted container \"app\" out of: app, side\n"}},
		{[]string{"exec", "-i", "one", "--", "cat"}, clitest.Result{Out: "typed"}},
		{[]string{"exec", "one", "--", "cat"}, clitest.Result{}}, // without -i, stdin is not read
		{[]string{"exec", "-it", "one", "--", "cat"}, clitest.Result{Out: "typed", Stderr: "stdin is not a terminal, or -i is missing: going on without one\n"}},
		{[]string{"exec", "waits", "--", "ls"}, clitest.Result{Code: 1, Stderr: "error: container app of pod waits is waiting: CrashLoopBackOff; see 'berth logs waits -c app -p'\n"}},
		{[]string{"exec", "nope", "--", "ls"}, clitest.Result{Code: 1, Stderr: "error: pod \"nope\" not found\n"}},
		{[]string{"exec", "one", "-c", "nope", "--", "ls"}, clitest.Result{Code: 1, Stderr: "error: pod y/one-node-1 has no container \"nope\": it has app\n"}},
	}
	for _, c := range cases {
		if got := a.BerthReading(t, "typed", c.args...); got != c.want {
			t.Errorf("berth %q: got %+v, want %+v", c.args, got, c.want)
		}
	}
}

func TestExecIsInterrupted(t *testing.T) {
	a := startNode(t, func(_ context.Context, p streams.Process) error {
		_, _ = fmt.Fprintln(p.Out, "begun")
		_, err := io.Copy(io.Discard, p.In)
		return err
	})
	a.Set(nil, clitest.RunningPod("x", "web", "app"))
	in, typist := io.Pipe()
	t.Cleanup(func() { _ = typist.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		root := root()
		root.SetIn(in)
		root.SetOut(w)
		code <- cmdutil.Execute(ctx, root, io.Discard, "exec", "-i", "web", "--root-dir", a.RootDir, "--", "cat")
	}()
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := <-code; got != cmdutil.Interrupted {
		t.Errorf("got exit code %d", got)
	}
}

func TestAttach(t *testing.T) {
	a := startNode(t, func(_ context.Context, p streams.Process) error {
		_, _ = fmt.Fprintf(p.Out, "terminal %t, input %t\n", p.TTY, p.In != nil)
		if p.In != nil {
			_, err := io.Copy(p.Out, p.In)
			return err
		}
		return nil
	})
	shell := clitest.RunningPod("x", "shell", "app")
	shell.Spec.Containers[0].Stdin, shell.Spec.Containers[0].TTY = true, true
	a.Set(nil, clitest.RunningPod("x", "web", "app"), shell)
	for args, want := range map[string]clitest.Result{
		"attach web":      {Out: "terminal false, input false\n"},
		"attach web -t":   {Out: "terminal false, input false\n", Stderr: "container app has no terminal (its spec has no 'tty: true'): going on without one\n"},
		"attach web -i":   {Code: 1, Stderr: "error: container app reads no stdin (its spec has no 'stdin: true'): leave out -i, or use 'berth exec -it' (see 'berth attach --help')\n"},
		"attach shell":    {Out: "terminal true, input false\n"},
		"attach shell -i": {Out: "terminal true, input true\ntyped"},
	} {
		if got := a.BerthReading(t, "typed", strings.Fields(args)...); got != want {
			t.Errorf("berth %s: got %+v, want %+v", args, got, want)
		}
	}
}

func TestCopy(t *testing.T) {
	there, here := t.TempDir(), t.TempDir()
	a := startNode(t, onThisMachine(there))
	a.Set(nil, clitest.RunningPod("x", "web", "app"), clitest.RunningPod("y", "web", "app"))
	if err := os.WriteFile(filepath.Join(here, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.Berth(t, "cp", filepath.Join(here, "file"), "x/web:copy"); got != (clitest.Result{}) {
		t.Errorf("got %+v", got)
	}
	if got := a.Berth(t, "cp", "web:copy", filepath.Join(here, "again"), "-n", "x"); got != (clitest.Result{}) {
		t.Errorf("got %+v", got)
	}
	if content, err := os.ReadFile(filepath.Join(here, "again")); err != nil || string(content) != "content" {
		t.Errorf("got %q, %v", content, err)
	}
	if got := a.Berth(t, "cp", "x/web:nope", here); got.Code != 1 || !strings.HasPrefix(got.Stderr, "error: tar in container app failed:") {
		t.Errorf("got %+v", got)
	}
}

// fakeDebugs adds containers to the pods of an agent, in a state.
type fakeDebugs struct {
	agent *clitest.Agent
	state v1.ContainerState
}

func (d *fakeDebugs) AddContainer(_ context.Context, p *v1.Pod, c v1.EphemeralContainer) error {
	now := p.DeepCopy()
	now.Spec.EphemeralContainers = append(now.Spec.EphemeralContainers, c)
	now.Status.EphemeralContainerStatuses = append(now.Status.EphemeralContainerStatuses, v1.ContainerStatus{
		Name: c.Name, ContainerID: "containerd://" + c.Name, State: d.state,
	})
	d.agent.Set(nil, now)
	return nil
}

func TestDebug(t *testing.T) {
	d := &fakeDebugs{}
	n := &streams.Node{Run: func(_ context.Context, p streams.Process) error {
		text, err := io.ReadAll(p.In)
		_, _ = fmt.Fprintf(p.Out, "%s got %q\n", p.Container, text)
		pods, _ := d.agent.List()
		now := pods[0].DeepCopy()
		now.Status.EphemeralContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 9}}
		d.agent.Set(nil, now)
		return err
	}}
	a := clitest.StartAgent(t, root, func(c *localapi.Config) { c.EphemeralContainers, c.Node = d, n.Handler() })
	d.agent = a
	debug := func(state v1.ContainerState, args ...string) (clitest.Result, v1.EphemeralContainer) {
		t.Helper()
		d.state = state
		a.Set(nil, clitest.RunningPod("x", "web", "app"))
		got := a.BerthReading(t, "typed", append([]string{"debug", "web", "--image", "localhost/tools:1"}, args...)...)
		pods, _ := a.List()
		var added v1.EphemeralContainer
		if all := pods[0].Spec.EphemeralContainers; len(all) > 0 {
			added = all[0]
		}
		return got, added
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}

	got, added := debug(running, "-c", "look", "--target", "app", "--", "sh", "-c", "x")
	if got != (clitest.Result{Out: "container look starts in pod web; see 'berth logs web -c look'\n"}) {
		t.Errorf("got %+v", got)
	}
	if text, _ := json.Marshal(added); string(text) != `{"name":"look","image":"localhost/tools:1","command":["sh","-c","x"],"resources":{},"targetContainerName":"app"}` {
		t.Errorf("added %s", text)
	}
	// Its exit code is that of berth
	if got, _ := debug(running, "-c", "look", "-i"); got.Code != 9 || got.Out != "look got \"typed\"\n" {
		t.Errorf("got %+v", got)
	}
	// A container that has ended before the client attaches
	a.WriteLog(t, "look", "in a hurry")
	over := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, ContainerID: "containerd://look"}}
	if got, _ := debug(over, "-c", "look", "-i"); got.Code != 3 || got.Out != "in a hurry\n" {
		t.Errorf("got %+v", got)
	}
	if got, _ := debug(clitest.WaitingState("ErrImagePull"), "-i", "-c", "look"); got.Code != 1 || !strings.Contains(got.Stderr, "error: container look of pod web is waiting: ErrImagePull") {
		t.Errorf("got %+v", got)
	}
	if _, added := debug(running); !strings.HasPrefix(added.Name, "debugger-") {
		t.Errorf("added %+v", added)
	}
	if got, _ := debug(running, "--target", "nope"); got.Code != 1 || !strings.Contains(got.Stderr, `has no container "nope": it has app`) {
		t.Errorf("got %+v", got)
	}
}
