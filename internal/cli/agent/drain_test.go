package agent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/localapi"
	"berth/internal/app"
	"berth/internal/cli/clitest"
	"berth/internal/cluster/shutdown"
	"berth/internal/lib/pod"
)

// drainable is a node whose pods end when they are stopped, except those that hang.
type drainable struct {
	mu    sync.Mutex
	pods  []*v1.Pod
	hangs map[string]bool
	ended map[pod.UID]chan struct{}
	held  bool
}

func (d *drainable) Active() []*v1.Pod { return d.pods }

func (d *drainable) End(uid pod.UID, _ *int64, _ pod.Cause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.hangs[string(uid)] {
		close(d.ended[uid])
		d.hangs[string(uid)] = true
	}
}

func (d *drainable) Ended(uid pod.UID) <-chan struct{} { return d.ended[uid] }

func (d *drainable) Hold(context.Context, pod.Cause) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
	return nil
}

func (d *drainable) Resume(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = false
	return nil
}

func (d *drainable) isHeld() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// startDrainable serves a node with pods of these names over the real manager and
// the real server.
func startDrainable(t *testing.T, hanging string, names ...string) (*drainable, *clitest.Agent) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	d := &drainable{hangs: map[string]bool{hanging: true}, ended: map[pod.UID]chan struct{}{}}
	for _, name := range names {
		p := &v1.Pod{}
		p.Name, p.Namespace, p.UID = name, "default", pod.UID(name)
		d.pods = append(d.pods, p)
		d.ended[p.UID] = make(chan struct{})
	}
	manager, err := shutdown.New(shutdown.Config{Pods: d, Gate: d, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return d, clitest.StartAgent(t, root, func(c *localapi.Config) { c.Drains = app.Drains{Manager: manager} })
}

func TestDrainAndUndo(t *testing.T) {
	d, a := startDrainable(t, "", "db", "web")
	got := a.Berth(t, "drain")
	want := []string{"no pod starts here any more; 2 to stop", "pod default/db stopping (has 30 s)", "pod default/web stopped (0.0 s)", "the node is drained"}
	for _, line := range want {
		if !strings.Contains(got.Out, line) {
			t.Errorf("%q is missing in:\n%s", line, got.Out)
		}
	}
	if got.Code != 0 || got.Stderr != "" || !d.isHeld() {
		t.Errorf("got %+v, held %t", got, d.isHeld())
	}
	if got := a.Berth(t, "drain", "--undo"); got.Code != 0 || got.Out != "pods may run here again\n" || d.isHeld() {
		t.Errorf("got %+v, held %t", got, d.isHeld())
	}
}

func TestADrainThatDoesNotEndInTimeNamesThePods(t *testing.T) {
	_, a := startDrainable(t, "db", "db", "web")
	got := a.Berth(t, "drain", "--timeout", "10ms")
	if got.Code != 1 || got.Stderr != "error: 1 pods have not stopped: default/db\n" || !strings.Contains(got.Out, "pod default/db has not stopped in time") {
		t.Errorf("got %+v", got)
	}
}

// leaver ends a context as soon as something is written.
type leaver struct {
	bytes.Buffer
	leave func()
}

func (l *leaver) Write(b []byte) (int, error) {
	l.leave()
	return l.Buffer.Write(b)
}

func TestADrainThatIsInterruptedSaysHowItStands(t *testing.T) {
	d, a := startDrainable(t, "db", "db")
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	code := clitest.Execute(ctx, root, &leaver{leave: cancel}, &stderr, "drain", "--root-dir", a.RootDir)
	if code != 1 || !strings.Contains(stderr.String(), "--undo") || !d.isHeld() {
		t.Errorf("got %d %s, held %t", code, stderr.String(), d.isHeld())
	}
}

func TestDrainCommandLine(t *testing.T) {
	for _, test := range []struct{ args, says string }{
		{"--grace-period-seconds -2", "give a number of seconds"},
		{"--timeout -1s", "can't be below 0"},
		{"--undo --timeout 5s", "exclude each other"},
		{"web", "unknown command"},
	} {
		a := clitest.NoAgent(t, root)
		got := a.Berth(t, append([]string{"drain"}, strings.Fields(test.args)...)...)
		if got.Code != 1 || !strings.Contains(got.Stderr, test.says) {
			t.Errorf("%s: got %+v", test.args, got)
		}
	}
}
