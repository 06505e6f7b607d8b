package agent_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/api/localapi"
	"berth/internal/core/admit"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// What a pod costs the agent must not depend on how many others there are. The test
// below takes 50 and 500 pods through their lives on the fake runtime, and compares
// what one pod costs in each phase: it may grow by 20 %.

// compareCPU has processor time compared, too. It depends on the machine, so only
// `make bench-flat` asks for it.
var compareCPU = flag.Bool("flat.cpu", false, "TestFlatTo500Pods: compare processor time per pod, too")

const (
	fewPods, manyPods = 50, 500
	growthLimit       = 1.20
	podWatchers       = 4 // berth get pods -w
)

// cost is what a phase cost one pod.
type cost struct {
	mallocs, bytes float64
	cpu            time.Duration
}

// plus adds a share of another measurement, to an average.
func (c cost) plus(other cost, share float64) cost {
	return cost{c.mallocs + other.mallocs*share, c.bytes + other.bytes*share, c.cpu + time.Duration(float64(other.cpu)*share)}
}

func (c cost) String() string {
	return fmt.Sprintf("%7.0f mallocs %9.0f bytes %8s", c.mallocs, c.bytes, c.cpu.Round(time.Microsecond))
}

func TestFlatTo500Pods(t *testing.T) {
	var few, many map[string]cost
	var grown []string
	// What grew by chance does not grow each time. What really grows does, and by as much
	// as there are more pods. So a phase fails if it grew in every attempt.
	for attempt := range 4 {
		few, many = measurePods(t, fewPods), measurePods(t, manyPods)
		now := compare(few, many)
		if attempt > 0 {
			now = slices.DeleteFunc(now, func(what string) bool { return !slices.Contains(grown, what) })
		}
		if grown = now; len(grown) == 0 {
			break
		}
	}
	for _, phase := range phases {
		f, m := few[phase.name], many[phase.name]
		t.Logf("%-16s %d pods: %s   %d pods: %s   x%.2f mallocs x%.2f bytes x%.2f cpu", phase.name, fewPods, f, manyPods, m,
			m.mallocs/f.mallocs, m.bytes/f.bytes, float64(m.cpu)/float64(f.cpu))
	}
	for _, what := range grown {
		t.Errorf("%s: a pod among %d costs over %.0f %% more than a pod among %d", what, manyPods, 100*(growthLimit-1), fewPods)
	}
}

// compare returns the phases in which a pod costs too much more if there are many.
func compare(few, many map[string]cost) (grown []string) {
	for _, phase := range phases {
		f, m := few[phase.name], many[phase.name]
		if m.mallocs > f.mallocs*growthLimit {
			grown = append(grown, phase.name+", objects that are allocated")
		}
		if m.bytes > f.bytes*growthLimit {
			grown = append(grown, phase.name+", bytes that are allocated")
		}
	}
	if *compareCPU && total(many) > time.Duration(float64(total(few))*growthLimit) {
		grown = append(grown, "all phases, processor time")
	}
	return grown
}

// total is the processor time of one pod in all phases. Some are too short to be compared
// alone.
func total(costs map[string]cost) time.Duration {
	var all time.Duration
	for _, c := range costs {
		all += c.cpu
	}
	return all
}

// measurePods takes pods through all phases and returns what a pod cost in each. Few pods
// are taken through them several times, for an average: that of many pods is one already,
// and the best of several would not be comparable with it.
func measurePods(t *testing.T, pods int) map[string]cost {
	t.Helper()
	rounds := min(4, manyPods/pods)
	if *compareCPU {
		rounds = manyPods / pods
	}
	costs := map[string]cost{}
	for range rounds {
		inBubble(t, func(t *testing.T) {
			n := startFlatNode(t, pods)
			defer n.stop()
			for _, phase := range phases {
				c := measureCosts(t, pods, func() { phase.do(n) })
				costs[phase.name] = costs[phase.name].plus(c, 1/float64(rounds))
			}
		})
	}
	return costs
}

// A pod for which there is room is admitted without a look at each of the others.
func TestAdmissionReadsNoOtherPods(t *testing.T) {
	reads := func(pods int) (count int64) {
		inBubble(t, func(t *testing.T) {
			n := startFlatNode(t, pods)
			defer n.stop()
			last := len(n.bound) - 1
			n.binds(n.bound[:last]...)
			before := n.lifeReads.Load()
			n.binds(n.bound...)
			n.expectRunning(len(n.bound))
			count = n.lifeReads.Load() - before
		})
		return count
	}
	if few, many := reads(20), reads(200); many > few+10 {
		t.Errorf("to start a pod, the life of a pod was read %d times among 10 pods, and %d times among 100", few, many)
	}
}

func measureCosts(t *testing.T, pods int, do func()) cost {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu := processTime(t)
	do()
	cpu = processTime(t) - cpu
	runtime.ReadMemStats(&after)
	return cost{
		mallocs: float64(after.Mallocs-before.Mallocs) / float64(pods),
		bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(pods),
		cpu:     cpu / time.Duration(pods),
	}
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// flatNode is an agent whose folder and API server have half of the pods each, with
// watchers on its local API.
type flatNode struct {
	*node
	static, bound []*v1.Pod
	watchers      gate
}

// phases are the life of a node. Each ends when nothing moves any more.
var phases = []struct {
	name string
	do   func(*flatNode)
}{
	// All manifests are there when the agent starts.
	{"start folder", func(n *flatNode) { n.atOnce(n.static...); n.expectRunning(len(n.static)) }},
	// A scheduler binds one pod after the other.
	{"start bound", func(n *flatNode) {
		for i := range n.bound {
			n.binds(n.bound[:i+1]...)
		}
		n.expectRunning(len(n.static) + len(n.bound))
	}},
	{"restart", func(n *flatNode) {
		for _, p := range n.all() {
			must(n.t, n.runtime.Exit(p.UID, "app", 1))
			synctest.Wait()
		}
		n.expectRunning(len(n.all()))
	}},
	{"edit", func(n *flatNode) {
		for i := range n.bound {
			edited := *n.bound[i]
			edited.Labels = map[string]string{"edited": "true"}
			n.bound[i] = &edited
			n.binds(n.bound...)
		}
	}},
	// Two audits and two searches for leftovers, with the clock of the bubble.
	{"two idle minutes", func(*flatNode) { time.Sleep(2*time.Minute + time.Second); synctest.Wait() }},
	{"delete folder", func(n *flatNode) { n.atOnce(); n.expectRunning(len(n.bound)) }},
	{"delete bound", func(n *flatNode) {
		for i := range n.bound {
			n.binds(n.bound[i+1:]...)
		}
		n.expectRunning(0)
	}},
}

// atOnce is wants for many pods. The watchers do not read meanwhile, and then are told the
// outcome: else it would be chance how many steps on the way they see.
func (n *flatNode) atOnce(pods ...*v1.Pod) {
	n.watchers.pause()
	n.wants(pods...)
	n.watchers.resume()
	synctest.Wait()
}

func (n *flatNode) all() []*v1.Pod { return append(append([]*v1.Pod{}, n.static...), n.bound...) }

// expectRunning makes sure that a phase did what it was measured for.
func (n *flatNode) expectRunning(want int) {
	n.t.Helper()
	pods, _ := n.agent.List()
	running := 0
	for _, p := range pods {
		if p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil {
			running++
		}
	}
	if running != want || len(pods) != want {
		n.t.Fatalf("%d of %d pods run, want %d", running, len(pods), want)
	}
}

func startFlatNode(t *testing.T, pods int) *flatNode {
	t.Helper()
	n := &flatNode{node: startNode(t, fake.New(testImage), t.TempDir())}
	n.becomes(func(m *admit.Node) {
		m.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100"), v1.ResourcePods: resource.MustParse("1000"), v1.ResourceMemory: resource.MustParse("1Ti")}
	})
	for i := range pods {
		p := webPod(pod.UID(fmt.Sprintf("p%03d", i)))
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m"), v1.ResourceMemory: resource.MustParse("10Mi")}
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(20000 + i)}}
		if i%2 == 0 {
			n.static = append(n.static, p)
		} else {
			p.Annotations = nil
			n.bound = append(n.bound, p)
		}
	}
	n.binds() // else housekeeping waits for that source
	ctx, cancel := context.WithCancel(t.Context())
	ended := n.watchPods(ctx)
	stop := n.stop
	n.stop = func() { cancel(); ended(); stop() }
	return n
}

// watchPods opens watches on the local API of the node, as berth get pods -w does.
func (n *flatNode) watchPods(ctx context.Context) (ended func()) {
	n.t.Helper()
	s, err := localapi.New(localapi.Config{Pods: n.agent, Logs: noLogs{}, Log: slog.New(slog.DiscardHandler)})
	must(n.t, err)
	l := pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
	for range podWatchers {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://berth/v1/pods?watch=true", nil)
		must(n.t, err)
		answer, err := transport.RoundTrip(request)
		must(n.t, err)
		if answer.StatusCode != http.StatusOK {
			n.t.Fatalf("watch: %s", answer.Status)
		}
		go func() { _, _ = io.Copy(io.Discard, n.watchers.reader(answer.Body)); _ = answer.Body.Close() }()
	}
	return func() { transport.CloseIdleConnections(); <-served }
}

// gate keeps readers from reading while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while readers may read; nil: they may
}

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		<-open
	}
}

type gatedReader struct {
	*gate
	r io.Reader
}

func (g *gate) reader(r io.Reader) io.Reader { return gatedReader{g, r} }

func (g gatedReader) Read(b []byte) (int, error) {
	g.wait()
	return g.r.Read(b)
}

type noLogs struct{}

func (noLogs) LogPath(context.Context, pod.UID, string) (string, <-chan struct{}, error) {
	return "", nil, io.EOF
}

// pipeListener accepts connections within the process: a bubble does not wait for sockets.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
