package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"berth/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

func root() *cobra.Command { return NewRootCommand("client-version") }

func TestErrorsAreOneLine(t *testing.T) {
	dir := clitest.NewRootDir(t)
	cases := []struct {
		args string
		want string
	}{
		{"get pods", "error: berth is not running on " + dir + " (no socket at " + dir + "/berth.sock): start it with 'berth run', or give its root with --root-dir"},
		{"logs x", "error: berth is not running on"},
		{"gte pods", `error: unknown command "gte" for "berth"`},
		{"get", "error: say what to get: pods, events, node, images or volumes, as in 'berth get pods' (see 'berth get --help')"},
		{"get secrets", `error: berth can't get "secrets": it can get pods, events, node, images and volumes`},
		{"get pods --nope", "error: unknown flag: --nope (see 'berth get pods --help')"},
		{"get pods --namespce x", "error: unknown flag: --namespce; did you mean --namespace? (see 'berth get pods --help')"},
		{"get pods a b", "error: give one pod, or none for all"},
		{"get pods -o xml", `error: output "xml" is not known: it can be any of wide, json, yaml, name, jsonpath=...`},
		{"get pods -A -n x", "error: --namespace and --all-namespaces exclude each other"},
		{"get pods -n a/b", `error: "a/b" is not the name of a namespace`},
		{"get pod/Not_A_Name", `error: "Not_A_Name" is not the name of a pod`},
		{"get pods web -l app=web", "error: give the name of a pod or a --selector, not both"},
		{"get pods -l app=web=x", `error: --selector is "app=web=x": `},
		{"get pods Not_A_Name", `error: "Not_A_Name" is not the name of a pod: write NAME or pod/NAME`},
		{"get events web", `error: "web" is one word too many (see 'berth get events --help')`},
		{"get events -o xml", `error: output "xml" is not known: it can be any of wide, json, yaml, name, jsonpath=...`},
		{"get events -A -n x", "error: --namespace and --all-namespaces exclude each other"},
		{"get events -n a/b", `error: "a/b" is not the name of a namespace`},
		{"get events --for a_b", `error: "a_b" is not the name of a pod`},
		{"get events", "error: berth is not running on"},
		{"describe", "error: say what to describe: 'berth describe pod POD' or 'berth describe node' (see 'berth describe --help')"},
		{"describe web", `error: berth can't describe "web": it can describe pods and the node, as in 'berth describe pod POD'`},
		{"describe pod", "error: give the name of one pod (see 'berth describe pod --help')"},
		{"describe pod ..", `error: ".." is not the name of a pod`},
		{"describe pod x -n a/b", `error: "a/b" is not the name of a namespace`},
		{"logs", "error: give the name of one pod (see 'berth logs --help')"},
		{"logs ..", `error: ".." is not the name of a pod`},
		{"logs x --tail -2", "error: --tail is -2: give a number of lines, or -1 for all"},
		{"logs x --since=-1s", "error: --since is -1s, and can't be below 0"},
		{"logs x --since 1s --since-time 2026-01-02T03:04:05Z", "error: --since and --since-time exclude each other"},
		{"logs x --since-time noon", `error: --since-time is "noon": give it as in 2026-01-02T03:04:05Z`},
		{"logs x --limit-bytes=-1", "error: --limit-bytes is -1, and can't be below 0"},
		{"version now", `error: "now" is one word too many`},
		{"version -o xml", `error: output "xml" is not known: it can be json`},
	}
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			var out, stderr bytes.Buffer
			code := clitest.Execute(t.Context(), root, &out, &stderr, append(strings.Fields(c.args), "--root-dir", dir)...)
			if code != 1 || out.Len() > 0 {
				t.Errorf("got code %d and output %q, want 1 and none", code, out.String())
			}
			if got := stderr.String(); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("got %q, want one line that begins with %q", got, c.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"get", "pods", "--help"}, {"get", "events", "--help"}, {"describe", "pod", "--help"}, {"logs", "--help"}, {"completion", "bash"}} {
		var out, stderr bytes.Buffer
		if code := clitest.Execute(t.Context(), root, &out, &stderr, args...); code != 0 || out.Len() == 0 || stderr.Len() > 0 {
			t.Errorf("berth %v: got code %d, %d bytes, stderr %q", args, code, out.Len(), stderr.String())
		}
	}
}

func TestCompletion(t *testing.T) {
	a := clitest.StartAgent(t, root)
	a.Set(nil, clitest.RunningPod("x", "web", "app", "side"), clitest.RunningPod("x", "wall", "brick"), clitest.RunningPod("y", "db", "sql"))
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"get", "pods", "w"}, "wall-node-1 web-node-1"},
		{[]string{"get", "pods", "-n", "y", ""}, "db-node-1"},
		{[]string{"get", "pods", "web-node-1", ""}, ""},
		{[]string{"get", "pods", "-n", ""}, "x y"},
		{[]string{"get", "pods", "-o", ""}, "wide json yaml name jsonpath="},
		{[]string{"get", "events", "--for", "w"}, "wall-node-1 web-node-1"},
		{[]string{"get", "events", "-o", ""}, "wide json yaml name jsonpath="},
		{[]string{"get", "events", ""}, ""},
		{[]string{"describe", "pod", "d"}, "db-node-1"},
		{[]string{"describe", "pod", "-n", ""}, "x y"},
		{[]string{"logs", "d"}, "db-node-1"},
		{[]string{"logs", "web", "-c", ""}, "app side"},
		{[]string{"logs", "web", "-c", "s"}, "side"},
		{[]string{"logs", "nope", "-c", ""}, ""},
		{[]string{"logs", "-c", ""}, ""},
		{[]string{"logs", "--root-dir", "/nonexistent", ""}, ""},
	}
	for _, c := range cases {
		args := append([]string{"__complete", "--root-dir", a.RootDir}, c.args...)
		var out bytes.Buffer
		code := clitest.Execute(t.Context(), root, &out, io.Discard, args...)
		words, directive, _ := strings.Cut(out.String(), ":")
		if got := strings.Join(strings.Fields(words), " "); code != 0 || got != c.want {
			t.Errorf("%v: got code %d, %q, want %q", c.args, code, got, c.want)
		}
		if !strings.HasPrefix(directive, "4\n") && !strings.HasPrefix(directive, "36\n") {
			t.Errorf("%v: got directive %q, want that files are no answer", c.args, directive)
		}
	}
}

func TestVersion(t *testing.T) {
	a := clitest.StartAgent(t, root)
	got := a.Berth(t, "version")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "berth client-version (go") || !strings.Contains(got.Out, "\nagent agent-version (go") {
		t.Errorf("with an agent: got %+v", got)
	}
	if got := a.Berth(t, "version", "-o", "json"); !strings.Contains(got.Out, `"version": "agent-version"`) {
		t.Errorf("as JSON: got %+v", got)
	}
	none := clitest.NoAgent(t, root)
	if got := none.Berth(t, "version"); got.Code != 0 || !strings.HasPrefix(got.Stderr, "agent: berth is not running") {
		t.Errorf("without an agent: got %+v", got)
	}
	if got := none.Berth(t, "version", "-o", "json"); got.Code != 0 || strings.Contains(got.Out, "agent") {
		t.Errorf("as JSON, without an agent: got %+v", got)
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, args := range []string{
		"get node", "get images", "get volumes", "describe node", "top pods", "top node", "waterfall", "validate", "diff", "doctor", "run",
	} {
		got := clitest.Run(t, root, "", append(strings.Fields(args), "--help")...)
		if got.Code != 0 || !strings.Contains(got.Out, "Examples:\n") || got.Stderr != "" {
			t.Errorf("berth %s --help: got %+v", args, got)
		}
	}
}

func TestInventoryOfAnAgentThatDoesNotKnow(t *testing.T) {
	a := clitest.StartAgent(t, root)
	a.Set(nil, clitest.RunningPod("x", "web", "app"))
	for args, want := range map[string]string{
		"get node":      "error: this agent does not know about its node\n",
		"get images":    "error: this agent does not know about images\n",
		"get volumes":   "error: this agent does not know about volumes\n",
		"waterfall web": "error: this agent does not know about how pods start\n",
	} {
		if got := a.Berth(t, strings.Fields(args)...); got != (clitest.Result{Code: 1, Stderr: want}) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
	// A pod is described nevertheless
	if got := a.Berth(t, "describe", "pod", "web"); got.Code != 0 || !strings.Contains(got.Out, "Volumes:  <none>") {
		t.Errorf("got %+v", got)
	}
}

func TestStartedAsKubeletItTakesTheKubeletsFlags(t *testing.T) {
	for _, program := range []string{"kubelet", "/usr/bin/kubelet"} {
		var stderr bytes.Buffer
		if code := Run(t.Context(), "v0", []string{program, "--max-pod=3"}, &stderr); code != 1 || !strings.Contains(stderr.String(), "did you mean --max-pods?") {
			t.Errorf("%s: got code %d, %q", program, code, stderr.String())
		}
	}
	var stderr bytes.Buffer
	if code := Run(t.Context(), "v0", []string{"berth", "run", "--max-pods=3"}, &stderr); code != 1 || !strings.Contains(stderr.String(), "unknown flag: --max-pods") {
		t.Errorf("under its own name: got code %d, %q", code, stderr.String())
	}
}
