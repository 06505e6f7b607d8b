package pods

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/cli/clitest"
	"berth/internal/cli/cmdutil"
	"berth/internal/lib/pod"
)

func TestGetPods(t *testing.T) {
	a := clitest.StartAgent(t, root)
	refused := pod.Refusal{Origin: "/m/bad.yaml", Line: 3, Message: "no name", Kept: true, Pod: "x/bad"}
	db := clitest.RunningPod("y", "db", "sql")
	db.Labels = map[string]string{"app": "db"}
	a.Set([]pod.Refusal{refused}, db, clitest.RunningPod("x", "web", "app", "side"))
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
		got := a.Berth(t, strings.Fields(c.args)...)
		// A slow machine may show a second more.
		out := strings.NewReplacer("91s", "90s", "92s", "90s").Replace(got.Out)
		if got.Code != 0 || out != strings.TrimPrefix(c.want, "\n") || got.Stderr != refusedLine {
			t.Errorf("berth %s: got code %d, stderr %q,\n%s\nwant\n%s", c.args, got.Code, got.Stderr, got.Out, c.want)
		}
	}
}

func TestGetPodsInFull(t *testing.T) {
	a := clitest.StartAgent(t, root)
	a.Set(nil, clitest.RunningPod("y", "db", "sql"), clitest.RunningPod("x", "web", "app"))
	for output, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, into any) error { return yaml.UnmarshalStrict(b, into) },
	} {
		var list v1.PodList
		if err := decode([]byte(a.Berth(t, "get", "pods", "-o", output).Out), &list); err != nil {
			t.Fatal(err)
		}
		if list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 2 || list.Items[0].Kind != "Pod" || list.Items[0].Name != "web-node-1" {
			t.Errorf("%s: got %+v", output, list)
		}
		var one v1.Pod
		if err := decode([]byte(a.Berth(t, "get", "pods", "db", "-o", output).Out), &one); err != nil {
			t.Fatal(err)
		}
		if one.Kind != "Pod" || one.Name != "db-node-1" || one.Status.PodIP != "10.0.0.7" {
			t.Errorf("%s: got %+v", output, one)
		}
	}
}

func TestGetPodsOfNothing(t *testing.T) {
	a := clitest.StartAgent(t, root)
	if got := a.Berth(t, "get", "pods"); got != (clitest.Result{Stderr: "No pods found.\n"}) {
		t.Errorf("got %+v", got)
	}
	if got := a.Berth(t, "get", "pods", "-o", "json"); got.Code != 0 || !strings.Contains(got.Out, `"items": []`) {
		t.Errorf("as JSON: got %+v", got)
	}
	if got := a.Berth(t, "get", "pods", "x"); got != (clitest.Result{Code: 1, Stderr: "error: pod \"x\" not found\n"}) {
		t.Errorf("by name: got %+v", got)
	}
}

func withoutAge(p *v1.Pod) *v1.Pod {
	p.CreationTimestamp.Reset()
	return p
}

func TestGetPodsWatch(t *testing.T) {
	a := clitest.StartAgent(t, root)
	bad := pod.Refusal{Origin: "/m/bad.yaml", Message: "no name", Kept: true}
	web, db := withoutAge(clitest.RunningPod("x", "web", "app")), withoutAge(clitest.RunningPod("x", "db", "sql"))
	a.Set([]pod.Refusal{bad}, web, db)
	c := a.Start(t, "get", "pods", "-w")
	c.WantLines("NAME READY STATUS RESTARTS AGE", "db-node-1 1/1 Running 0 <unknown>", "web-node-1 1/1 Running 0 <unknown>")

	waits := web.DeepCopy()
	waits.Status.ContainerStatuses[0].State = clitest.WaitingState("CrashLoopBackOff")
	a.Set([]pod.Refusal{bad}, waits, db)
	c.WantLines("web-node-1 0/1 CrashLoopBackOff 0 <unknown>")
	a.Set(nil, waits)
	c.WantLines("db-node-1 1/1 Deleted 0 <unknown>")
	// A pod of another namespace brings the column for it
	a.Set(nil, waits, withoutAge(clitest.RunningPod("y", "new", "app")))
	c.WantLines("NAMESPACE NAME READY STATUS RESTARTS AGE", "y new-node-1 1/1 Running 0 <unknown>")
	c.Interrupt()
	c.WantEnd(0, "refused: /m/bad.yaml: no name (the last good version keeps running)\nno longer refused: /m/bad.yaml: no name\n")
}

func TestGetPodsWatchAsNames(t *testing.T) {
	a := clitest.StartAgent(t, root)
	a.Set(nil, clitest.RunningPod("x", "web", "app"))
	c := a.Start(t, "get", "pods", "-w", "-o", "name")
	c.WantLines("pod/web-node-1")
	c.Interrupt()
	c.WantEnd(0, "")
}

func TestColors(t *testing.T) {
	a := clitest.StartAgent(t, root)
	bad := clitest.RunningPod("x", "bad", "app")
	bad.Status.ContainerStatuses[0].State = clitest.WaitingState("CrashLoopBackOff")
	a.Set(nil, clitest.RunningPod("x", "web", "app"), bad)
	plain := a.Berth(t, "get", "pods")
	if strings.Contains(plain.Out, "\x1b") {
		t.Errorf("what is no terminal is given colours: %q", plain.Out)
	}
	got := a.Berth(t, "get", "pods", "--color", "always")
	if !strings.Contains(got.Out, cmdutil.Red+"CrashLoopBackOff"+cmdutil.ResetColor) || !strings.Contains(got.Out, cmdutil.Green+"Running"+cmdutil.ResetColor) {
		t.Errorf("got %q", got.Out)
	}
	if without := strings.NewReplacer(cmdutil.Red, "", cmdutil.Green, "", cmdutil.ResetColor, "").Replace(got.Out); without != plain.Out {
		t.Errorf("colours move columns: got\n%swant\n%s", without, plain.Out)
	}
	if got := a.Berth(t, "get", "pods", "--color", "pink"); got.Code != 1 || !strings.Contains(got.Stderr, "auto, always, never") {
		t.Errorf("got %+v", got)
	}
}
