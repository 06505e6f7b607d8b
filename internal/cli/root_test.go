package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
	"berth/internal/api/localapi"
	"berth/internal/lib/pod"
)

// The library looks after a closed connection for a while.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// fakeAgent is a berth with a state that tests set, behind the real server.
type fakeAgent struct {
	root    func() *cobra.Command
	rootDir string

	mu      sync.Mutex
	pods    []*v1.Pod
	refused []pod.Refusal
	changed chan struct{}
	ended   chan struct{}
}

func (a *fakeAgent) List() ([]*v1.Pod, []pod.Refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods, a.refused
}

// Since implements server.Pods: it has no versions, and tells all each time.
func (a *fakeAgent) Since(uint64) pod.Changes {
	pods, refused := a.List()
	return pod.Changes{Version: 1, All: true, Pods: pods, Refused: refused, NewRefusals: true}
}

func (a *fakeAgent) Watch(context.Context) <-chan struct{} { return a.changed }

func (a *fakeAgent) set(refused []pod.Refusal, pods ...*v1.Pod) {
	a.mu.Lock()
	a.pods, a.refused = pods, refused
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *fakeAgent) LogPath(_ context.Context, _ pod.UID, id string) (string, <-chan struct{}, error) {
	return filepath.Join(a.rootDir, id+".log"), a.ended, nil
}

func (a *fakeAgent) log(t *testing.T, id string, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(a.rootDir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		_, _ = io.WriteString(f, "2026-01-02T03:04:05Z stdout F "+l+"\n")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func newRootDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startAgent starts an agent, whose server more is told to.
func startAgent(t *testing.T, root func() *cobra.Command, more ...func(*localapi.Config)) *fakeAgent {
	t.Helper()
	a := &fakeAgent{root: root, rootDir: newRootDir(t), changed: make(chan struct{}, 1), ended: make(chan struct{})}
	config := localapi.Config{Pods: a, Logs: a, Version: "agent-version", Log: slog.New(slog.DiscardHandler)}
	for _, m := range more {
		m(&config)
	}
	s, err := localapi.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := localapi.Listen(api.SocketPath(a.rootDir), api.Group)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	return a
}

// result is what a command did.
type result struct {
	code        int
	out, stderr string
}

// berth runs a command on the root directory of a.
func (a *fakeAgent) berth(t *testing.T, args ...string) result {
	t.Helper()
	return local(t, a.root, "", append(args, "--root-dir", a.rootDir)...)
}

// runBerth runs a command until it ends, and returns its exit code.
func runBerth(ctx context.Context, root func() *cobra.Command, out, stderr io.Writer, args ...string) int {
	cmd := root()
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	return execute(ctx, cmd, stderr, args...)
}

// noAgent is a root directory on which no agent runs.
func noAgent(t *testing.T, root func() *cobra.Command) *fakeAgent {
	t.Helper()
	return &fakeAgent{root: root, rootDir: newRootDir(t)}
}

func testRoot() *cobra.Command { return newRootCommand("client-version") }

func runningPod(namespace, name string, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-node-1", UID: pod.UID(namespace + "-" + name),
			CreationTimestamp: metav1.NewTime(time.Now().Add(-90 * time.Second)),
			Annotations:       map[string]string{pod.AnnotationSource: pod.SourceFile},
		},
		Spec: v1.PodSpec{NodeName: "node-1"},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.7",
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
		},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "localhost/app:1"})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c, ContainerID: "containerd://" + c, Ready: true,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	return p
}

func TestErrorsAreOneLine(t *testing.T) {
	dir := newRootDir(t)
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
			code := runBerth(t.Context(), testRoot, &out, &stderr, append(strings.Fields(c.args), "--root-dir", dir)...)
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
		if code := runBerth(t.Context(), testRoot, &out, &stderr, args...); code != 0 || out.Len() == 0 || stderr.Len() > 0 {
			t.Errorf("berth %v: got code %d, %d bytes, stderr %q", args, code, out.Len(), stderr.String())
		}
	}
}

func TestCompletion(t *testing.T) {
	a := startAgent(t, testRoot)
	a.set(nil, runningPod("x", "web", "app", "side"), runningPod("x", "wall", "brick"), runningPod("y", "db", "sql"))
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
		args := append([]string{"__complete", "--root-dir", a.rootDir}, c.args...)
		var out bytes.Buffer
		code := runBerth(t.Context(), testRoot, &out, io.Discard, args...)
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
	a := startAgent(t, testRoot)
	got := a.berth(t, "version")
	if got.code != 0 || !strings.HasPrefix(got.out, "berth client-version (go") || !strings.Contains(got.out, "\nagent agent-version (go") {
		t.Errorf("with an agent: got %+v", got)
	}
	if got := a.berth(t, "version", "-o", "json"); !strings.Contains(got.out, `"version": "agent-version"`) {
		t.Errorf("as JSON: got %+v", got)
	}
	none := noAgent(t, testRoot)
	if got := none.berth(t, "version"); got.code != 0 || !strings.HasPrefix(got.stderr, "agent: berth is not running") {
		t.Errorf("without an agent: got %+v", got)
	}
	if got := none.berth(t, "version", "-o", "json"); got.code != 0 || strings.Contains(got.out, "agent") {
		t.Errorf("as JSON, without an agent: got %+v", got)
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, args := range []string{
		"get node", "get images", "get volumes", "describe node", "top pods", "top node", "waterfall", "validate", "diff", "doctor", "run",
	} {
		got := local(t, testRoot, "", append(strings.Fields(args), "--help")...)
		if got.code != 0 || !strings.Contains(got.out, "Examples:\n") || got.stderr != "" {
			t.Errorf("berth %s --help: got %+v", args, got)
		}
	}
}

func TestInventoryOfAnAgentThatDoesNotKnow(t *testing.T) {
	a := startAgent(t, testRoot)
	a.set(nil, runningPod("x", "web", "app"))
	for args, want := range map[string]string{
		"get node":      "error: this agent does not know about its node\n",
		"get images":    "error: this agent does not know about images\n",
		"get volumes":   "error: this agent does not know about volumes\n",
		"waterfall web": "error: this agent does not know about how pods start\n",
	} {
		if got := a.berth(t, strings.Fields(args)...); got != (result{code: 1, stderr: want}) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
	// A pod is described nevertheless
	if got := a.berth(t, "describe", "pod", "web"); got.code != 0 || !strings.Contains(got.out, "Volumes:  <none>") {
		t.Errorf("got %+v", got)
	}
}
