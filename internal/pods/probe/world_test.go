package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/lib/leaktest"
	"berth/internal/lib/pod"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// reply is how a command ends.
type reply struct {
	output string
	code   int32
	err    error
	takes  time.Duration
}

// world is a manager and all that it talks to. Commands are named by the probe
// that they belong to, and moments are counted from the beginning of the world.
type world struct {
	*Manager
	t       *testing.T
	began   time.Time
	stopRun func()
	log     bytes.Buffer

	mu      sync.Mutex
	replies map[string]reply // by container ID and command
	calls   []string         // as moment, container ID and command
	at      []time.Time      // of the calls
	now     int              // commands that run
	most    int              // that ran at the same time
	events  []string
	results []string
	seen    []string // by Observe
}

// newWorld makes a manager that remembers in path.
func newWorld(t *testing.T, path string) *world {
	t.Helper()
	w := &world{t: t, began: time.Now(), replies: map[string]reply{}}
	m, err := New(Config{
		Exec: w.exec, Explain: error.Error, Events: w, HostIP: func() string { return "127.0.0.1" }, StateFile: path, ExecSlots: 3,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		OnCheck: func(p *v1.Pod, container, kind string, result Outcome, took time.Duration) {
			w.note(&w.seen, fmt.Sprintf("%s/%s %s %s %v", p.Name, container, kind, result, took))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Manager = m
	return w
}

// start runs the manager, and receives its results.
func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	wg.Go(func() {
		for {
			select {
			case r := <-w.Startup:
				w.result("startup", r)
			case r := <-w.Liveness:
				w.result("liveness", r)
			case r := <-w.Readiness:
				w.result("readiness", r)
			case <-ctx.Done():
				return
			}
		}
	})
	w.stopRun = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(w.stopRun)
}

func (w *world) result(kind string, r pod.ProbeResult) {
	w.note(&w.results, fmt.Sprintf("%s %s %s %t", w.moment(), r.ContainerID, kind, r.Success))
}

// inWorld runs a test in a synctest bubble.
func inWorld(t *testing.T, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, filepath.Join(t.TempDir(), "probes.json"))
		w.start()
		story(w)
		w.stopRun()
	})
}

func (w *world) moment() string { return time.Since(w.began).String() }

// pass lets time go by until everything of that moment has happened.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) note(in *[]string, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*in = append(*in, what)
}

func (w *world) exec(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
	w.mu.Lock()
	r := w.replies[id+" "+command[0]]
	w.calls = append(w.calls, fmt.Sprintf("%s %s %s", w.moment(), id, command[0]))
	w.at = append(w.at, time.Now())
	w.now++
	w.most = max(w.most, w.now)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now--
		w.mu.Unlock()
	}()
	if errors.Is(r.err, pod.ErrNoAnswer) {
		timeout = r.takes
	}
	if r.takes > 0 {
		select {
		case <-time.After(min(r.takes, timeout)):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		if r.takes > timeout {
			return nil, 0, fmt.Errorf("exec: %w", context.DeadlineExceeded)
		}
	}
	return []byte(r.output), r.code, r.err
}

// answer sets how a command ends from now on.
func (w *world) answer(id, command string, r reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replies[id+" "+command] = r
}

func (w *world) RecordContainer(p *v1.Pod, container, kind, reason, message string) {
	w.note(&w.events, fmt.Sprintf("%s %s/%s %s %s: %s", w.moment(), p.Name, container, kind, reason, message))
}

// expect compares the records since the last call with the wanted ones.
func (w *world) expect(what string, got *[]string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(*got, want) {
		w.t.Errorf("at %s: %s: %q, want %q", w.moment(), what, *got, want)
	}
	*got = nil
}

func (w *world) expectCalls(want ...string)   { w.t.Helper(); w.expect("calls", &w.calls, want...) }
func (w *world) expectResults(want ...string) { w.t.Helper(); w.expect("results", &w.results, want...) }

func (w *world) expectEvents(want ...string) { w.t.Helper(); w.expect("events", &w.events, want...) }

// expectCallsInAnyOrder is for calls of one moment. Those that are wanted are sorted.
func (w *world) expectCallsInAnyOrder(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	slices.Sort(w.calls)
	w.mu.Unlock()
	w.expectCalls(want...)
}

// expectHealth compares health as text.
func (w *world) expectHealth(id, want string) {
	w.t.Helper()
	if got := healthText(w.Health(id)); got != want {
		w.t.Errorf("at %s: health of %s: %q, want %q", w.moment(), id, got, want)
	}
}

func healthText(h pod.Health) string {
	text := func(b *bool) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprint(*b)
	}
	s := "started=" + text(h.Started) + " ready=" + text(h.Ready) + " dead=" + h.Dead
	if h.Grace != nil {
		s += fmt.Sprint(" grace=", *h.Grace)
	}
	return s
}

// expectMost compares how many commands ran at the same time, at most.
func (w *world) expectMost(want int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most != want {
		w.t.Errorf("%d commands ran at the same time, want %d", w.most, want)
	}
}

// asking returns a probe that runs the command of that name.
func asking(command string, edits ...func(*v1.Probe)) *v1.Probe {
	p := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func delay(seconds int32) func(*v1.Probe) {
	return func(p *v1.Probe) { p.InitialDelaySeconds = seconds }
}

func thresholds(success, failure int32) func(*v1.Probe) {
	return func(p *v1.Probe) { p.SuccessThreshold, p.FailureThreshold = success, failure }
}

func period(seconds int32) func(*v1.Probe) {
	return func(p *v1.Probe) { p.PeriodSeconds = seconds }
}

func timeout(seconds int32) func(*v1.Probe) {
	return func(p *v1.Probe) { p.TimeoutSeconds = seconds }
}

// web is a pod of one container, app, with these probes.
func web(name string, s, l, r *v1.Probe) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", StartupProbe: s, LivenessProbe: l, ReadinessProbe: r}}},
	}
}

// has is an observation of containers called app, the newest first.
func has(containers ...pod.Container) pod.Observed {
	for i := range containers {
		containers[i].Name = "app"
	}
	return pod.Observed{Sandboxes: []pod.Sandbox{{State: pod.SandboxReady, IPs: []string{"127.0.0.1"}}}, Containers: containers}
}

func runs(id string, since time.Time) pod.Container {
	return pod.Container{ID: id, State: pod.ContainerRunning, StartedAt: since}
}

// watch reports to the manager that the container of p has just started.
func (w *world) watch(p *v1.Pod, id string) { w.Watch(p, has(runs(id, time.Now()))) }

var (
	bad         = reply{output: "no good", code: 1}
	unavailable = reply{err: errors.New("the runtime does not answer")}
)
