package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/lib/pod"
)

func TestGetPods(t *testing.T) {
	a := startAgent(t, testRoot)
	refused := pod.Refusal{Origin: "/m/bad.yaml", Line: 3, Message: "no name", Kept: true, Pod: "x/bad"}
	db := runningPod("y", "db", "sql")
	db.Labels = map[string]string{"app": "db"}
	a.set([]pod.Refusal{refused}, db, runningPod("x", "web", "app", "side"))
	const refusedLine = "refused: /m/bad.yaml:3: no name (pod x/bad; the last good version keeps running)\n"
	cases := []struct {
		args string
		want string
	}{
		{"get pods", `
NAMESPACE   NAME         READY   STATUS    RESTARTS   AGE
x           web-node-1   2/2     Running   0          90s
y           db-node-1    1/1     Running   0          90s
`},
		{"get po -n x -o wide", `
NAME         READY   STATUS    RESTARTS   AGE   IP         NODE     MESSAGE
web-node-1   2/2     Running   0          90s   10.0.0.7   node-1   <none>
`},
		{"get pod db", `
NAME        READY   STATUS    RESTARTS   AGE
db-node-1   1/1     Running   0          90s
`},
		{"get pod/db", `
NAME        READY   STATUS    RESTARTS   AGE
db-node-1   1/1     Running   0          90s
`},
		{"get pods -l app=db", `
NAME        READY   STATUS    RESTARTS   AGE
db-node-1   1/1     Running   0          90s
`},
		{"get pods -l app!=db -o name", "pod/web-node-1\n"},
		{"get pods pod/db-node-1 -A", `
NAMESPACE   NAME        READY   STATUS    RESTARTS   AGE
y           db-node-1   1/1     Running   0          90s
`},
		{"get pods -o name", `
pod/web-node-1
pod/db-node-1
`},
	}
	for _, c := range cases {
		got := a.berth(t, strings.Fields(c.args)...)
		// A slow machine may show a second more.
		out := strings.NewReplacer("91s", "90s", "92s", "90s").Replace(got.out)
		if got.code != 0 || out != strings.TrimPrefix(c.want, "\n") || got.stderr != refusedLine {
			t.Errorf("berth %s: got code %d, stderr %q,\n%s\nwant\n%s", c.args, got.code, got.stderr, got.out, c.want)
		}
	}
}

func TestGetPodsInFull(t *testing.T) {
	a := startAgent(t, testRoot)
	a.set(nil, runningPod("y", "db", "sql"), runningPod("x", "web", "app"))
	for output, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, into any) error { return yaml.UnmarshalStrict(b, into) },
	} {
		var list v1.PodList
		if err := decode([]byte(a.berth(t, "get", "pods", "-o", output).out), &list); err != nil {
			t.Fatal(err)
		}
		if list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 2 || list.Items[0].Kind != "Pod" || list.Items[0].Name != "web-node-1" {
			t.Errorf("%s: got %+v", output, list)
		}
		var one v1.Pod
		if err := decode([]byte(a.berth(t, "get", "pods", "db", "-o", output).out), &one); err != nil {
			t.Fatal(err)
		}
		if one.Kind != "Pod" || one.Name != "db-node-1" || one.Status.PodIP != "10.0.0.7" {
			t.Errorf("%s: got %+v", output, one)
		}
	}
}

func TestGetPodsOfNothing(t *testing.T) {
	a := startAgent(t, testRoot)
	if got := a.berth(t, "get", "pods"); got != (result{stderr: "No pods found.\n"}) {
		t.Errorf("got %+v", got)
	}
	if got := a.berth(t, "get", "pods", "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"items": []`) {
		t.Errorf("as JSON: got %+v", got)
	}
	if got := a.berth(t, "get", "pods", "x"); got != (result{code: 1, stderr: "error: pod \"x\" not found\n"}) {
		t.Errorf("by name: got %+v", got)
	}
}

// watching is a command that runs until it is interrupted.
type watching struct {
	t         *testing.T
	out       *bufio.Reader
	stderr    bytes.Buffer // to be read after stop
	interrupt context.CancelFunc
	code      chan int
}

func (a *fakeAgent) watch(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	c := &watching{t: t, out: bufio.NewReader(r), interrupt: cancel, code: make(chan int, 1)}
	go func() {
		c.code <- runBerth(ctx, a.root, w, &c.stderr, append(args, "--root-dir", a.rootDir)...)
		_ = w.Close()
	}()
	t.Cleanup(cancel)
	return c
}

func (c *watching) want(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		got, err := c.out.ReadString('\n')
		if got := strings.Join(strings.Fields(got), " "); got != want {
			c.t.Fatalf("got %q (%v), want %q", got, err, want)
		}
	}
}

// wantEnd waits for the command, which has no more to say.
func (c *watching) wantEnd(code int, stderr string) {
	c.t.Helper()
	if rest, _ := io.ReadAll(c.out); len(rest) > 0 {
		c.t.Errorf("got %q, want no more", rest)
	}
	if got := <-c.code; got != code || c.stderr.String() != stderr {
		c.t.Errorf("got code %d, stderr %q, want %d, %q", got, c.stderr.String(), code, stderr)
	}
}

func withoutAge(p *v1.Pod) *v1.Pod {
	p.CreationTimestamp.Reset()
	return p
}

func TestGetPodsWatch(t *testing.T) {
	a := startAgent(t, testRoot)
	bad := pod.Refusal{Origin: "/m/bad.yaml", Message: "no name", Kept: true}
	web, db := withoutAge(runningPod("x", "web", "app")), withoutAge(runningPod("x", "db", "sql"))
	a.set([]pod.Refusal{bad}, web, db)
	c := a.watch(t, "get", "pods", "-w")
	c.want("NAME READY STATUS RESTARTS AGE", "db-node-1 1/1 Running 0 <unknown>", "web-node-1 1/1 Running 0 <unknown>")

	waits := web.DeepCopy()
	waits.Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff")
	a.set([]pod.Refusal{bad}, waits, db)
	c.want("web-node-1 0/1 CrashLoopBackOff 0 <unknown>")
	a.set(nil, waits)
	c.want("db-node-1 1/1 Deleted 0 <unknown>")
	// A pod of another namespace brings the column for it
	a.set(nil, waits, withoutAge(runningPod("y", "new", "app")))
	c.want("NAMESPACE NAME READY STATUS RESTARTS AGE", "y new-node-1 1/1 Running 0 <unknown>")
	c.interrupt()
	c.wantEnd(0, "refused: /m/bad.yaml: no name (the last good version keeps running)\nno longer refused: /m/bad.yaml: no name\n")
}

func TestGetPodsWatchAsNames(t *testing.T) {
	a := startAgent(t, testRoot)
	a.set(nil, runningPod("x", "web", "app"))
	c := a.watch(t, "get", "pods", "-w", "-o", "name")
	c.want("pod/web-node-1")
	c.interrupt()
	c.wantEnd(0, "")
}

func TestColors(t *testing.T) {
	a := startAgent(t, testRoot)
	bad := runningPod("x", "bad", "app")
	bad.Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff")
	a.set(nil, runningPod("x", "web", "app"), bad)
	plain := a.berth(t, "get", "pods")
	if strings.Contains(plain.out, "\x1b") {
		t.Errorf("what is no terminal is given colours: %q", plain.out)
	}
	got := a.berth(t, "get", "pods", "--color", "always")
	if !strings.Contains(got.out, red+"CrashLoopBackOff"+uncolor) || !strings.Contains(got.out, green+"Running"+uncolor) {
		t.Errorf("got %q", got.out)
	}
	if without := strings.NewReplacer(red, "", green, "", uncolor, "").Replace(got.out); without != plain.out {
		t.Errorf("colours move columns: got\n%swant\n%s", without, plain.out)
	}
	if got := a.berth(t, "get", "pods", "--color", "pink"); got.code != 1 || !strings.Contains(got.stderr, "auto, always, never") {
		t.Errorf("got %+v", got)
	}
}
