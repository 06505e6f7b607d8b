package agent_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/api/localapi"
	"berth/internal/core/admit"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/probe"
	"berth/internal/runtime/fake"
)

// What a pod costs the agent must not depend on how many others there are. The test
// below takes 50 and 500 pods through their lives on the fake runtime, and compares
// what one pod costs in each phase: it may grow by 20 %.
//
// Objects and bytes that are allocated are counted, and hardly vary. Processor time does,
// on a machine that does other work, so everything is kept out of it that is not a cost of
// the agent:
//   - A sample of either size is 500 pods: one node of 500, or ten nodes of 50, one after the
//     other. Samples of both sizes take equally long, so that other work disturbs them alike,
//     and alternate.
//   - A disturbance only ever adds to a sample. So of all samples of a size the lowest counts,
//     for each phase. If a phase seems to grow, more samples are taken, up to a limit: they
//     bring both sizes closer to their real cost, and a phase that really grows fails.
//   - The garbage collector runs between samples only. What it costs follows from the bytes,
//     which are compared, and from its own rules: a heap as small as that of 50 pods is
//     hardly ever collected.
//   - There is one processor. Others would look for work that there is not.
//   - Whatever goes through all pods once a minute finds nothing of them in the caches of the
//     processor. In a bubble the minutes pass at once, and 50 pods would still be there.
//   - Directories of pods are in memory. On a disk, they are most of the cost of a start, vary
//     by several times, and are the kernel's.

// compareCPU has processor time compared, too. It takes some seconds, so only
// `make bench-flat` asks for it.
var compareCPU = flag.Bool("flat.cpu", false, "TestFlatTo500Pods: compare processor time per pod, too")

const (
	fewPods, manyPods = 50, 500
	growthLimit       = 1.20
	podWatchers       = 4 // berth get pods -w

	// leastSamples and mostSamples are how many samples of each size are compared by
	// processor time. At a load of five per processor, the lowest of 5 samples of 500 pods
	// was 0.8 to 1.1 times that of 50. A look at all pods at each start, which it must find,
	// made it 1.45 times.
	leastSamples, mostSamples = 5, 15
	cacheSize                 = 64 << 20 // more than a processor has
)

// cost is the cost of one phase for one pod.
type cost struct {
	mallocs, bytes float64
	cpu            time.Duration
}

func (c cost) String() string {
	return fmt.Sprintf("%5.0f mallocs %6.0f bytes %4d µs", c.mallocs, c.bytes, c.cpu.Microseconds())
}

// costs are the costs of all phases, by name.
type costs map[string]cost

func TestFlatTo500Pods(t *testing.T) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	few, many := measurePods(t, fewPods), measurePods(t, manyPods)
	if *compareCPU {
		few, many = costs{}, costs{} // nothing was loaded, and the heap was small
		samples := 0
		for ; samples < leastSamples || samples < mostSamples && len(compare(few, many)) > 0; samples++ {
			few.lower(measurePods(t, fewPods))
			many.lower(measurePods(t, manyPods))
		}
		t.Logf("the lowest of %d samples of each size:", samples)
	}
	for _, phase := range phases {
		f, m := few[phase.name], many[phase.name]
		t.Logf("%-16s %d pods: %s   %d pods: %s   x%.2f mallocs x%.2f bytes x%.2f cpu", phase.name, fewPods, f, manyPods, m,
			m.mallocs/f.mallocs, m.bytes/f.bytes, float64(m.cpu)/float64(f.cpu))
	}
	for _, grown := range compare(few, many) {
		t.Errorf("%s: a pod among %d costs over %.0f %% more than a pod among %d", grown, manyPods, 100*(growthLimit-1), fewPods)
	}
}

// lower keeps the lower cost of two measurements.
func (c costs) lower(other costs) {
	for name, o := range other {
		known, ok := c[name]
		if !ok {
			known = o
		}
		c[name] = cost{min(known.mallocs, o.mallocs), min(known.bytes, o.bytes), min(known.cpu, o.cpu)}
	}
}

// compare returns the phases in which a pod costs too much more if there are many.
func compare(few, many costs) (grown []string) {
	for _, phase := range phases {
		f, m := few[phase.name], many[phase.name]
		if m.mallocs > f.mallocs*growthLimit {
			grown = append(grown, phase.name+", objects that are allocated")
		}
		if m.bytes > f.bytes*growthLimit {
			grown = append(grown, phase.name+", bytes that are allocated")
		}
		if *compareCPU && float64(m.cpu) > float64(f.cpu)*growthLimit {
			grown = append(grown, phase.name+", processor time")
		}
	}
	return grown
}

// measurePods takes manyPods pods through all phases, so many on a node, and returns what
// each phase cost a pod.
func measurePods(t *testing.T, pods int) costs {
	t.Helper()
	all := costs{}
	var other []byte // takes the place of pods in the caches of the processor
	if *compareCPU {
		other = make([]byte, cacheSize)
	}
	runtime.GC()
	for range manyPods / pods {
		inBubble(t, func(t *testing.T) {
			n := startFlatNode(t, pods)
			defer n.stop()
			for _, phase := range phases {
				for range max(1, phase.minutes) {
					if phase.minutes > 0 {
						writeEach(64, other)
					}
					all.add(phase.name, measurePhase(t, func() { phase.do(n) }))
				}
			}
		})
	}
	return all
}

// writeEach writes to each cache line of some memory.
func writeEach(line int, memory []byte) {
	for i := 0; i < len(memory); i += line {
		memory[i]++
	}
}

// add adds the cost of one node of several.
func (c costs) add(name string, node cost) {
	sum := c[name]
	c[name] = cost{sum.mallocs + node.mallocs/manyPods, sum.bytes + node.bytes/manyPods, sum.cpu + node.cpu/manyPods}
}

// measurePhase returns the cost of do for all pods of a node.
func measurePhase(t *testing.T, do func()) cost {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processTime(t)
	do()
	cpu = processTime(t) - cpu
	runtime.ReadMemStats(&after)
	return cost{mallocs: float64(after.Mallocs - before.Mallocs), bytes: float64(after.TotalAlloc - before.TotalAlloc), cpu: cpu}
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now))
	return time.Duration(now.Nano())
}

// A pod for which there is room is admitted without a look at each of the others.
func TestAdmissionReadsNoOtherPods(t *testing.T) {
	reads := func(pods int) (count int64) {
		inBubble(t, func(t *testing.T) {
			plain := newNode(t, fake.New(testImage), t.TempDir(), &fake.Probes{}, &probe.Manager{})
			// The loop is started by hand, with a pool that counts.
			counted := &countedPool{Pool: plain.pool}
			group := run.NewGroup(t.Context(), slog.New(slog.DiscardHandler))
			group.Go("observer", plain.core.Observer.Run)
			group.Go("agent", func(ctx context.Context) { plain.agent.Run(ctx, counted, plain.snapshots) })
			n := newFlatNode(plain, pods)
			defer n.stop()
			defer group.Stop()
			last := len(n.bound) - 1
			n.binds(n.bound[:last]...)
			before := counted.reads.Load()
			n.binds(n.bound...)
			n.expectRunning(len(n.bound))
			count = counted.reads.Load() - before
		})
		return count
	}
	if few, many := reads(20), reads(200); many > few+10 {
		t.Errorf("to start a pod, the life of a pod was read %d times among 10 pods, and %d times among 100", few, many)
	}
}

// countedPool counts the calls of Life.
type countedPool struct {
	*worker.Pool
	reads atomic.Int64
}

// Life implements agent.Workers.
func (p *countedPool) Life(uid pod.UID) (worker.Life, bool) {
	p.reads.Add(1)
	return p.Pool.Life(uid)
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
	name    string
	do      func(*flatNode)
	minutes int // how often it is done; 0: once
}{
	// All manifests are there when the agent starts.
	{name: "start folder", do: func(n *flatNode) { n.atOnce(n.static...); n.expectRunning(len(n.static)) }},
	// A scheduler binds one pod after the other.
	{name: "start bound", do: func(n *flatNode) {
		for i := range n.bound {
			n.binds(n.bound[:i+1]...)
		}
		n.expectRunning(len(n.static) + len(n.bound))
	}},
	{name: "restart", do: func(n *flatNode) {
		for _, p := range n.all() {
			must(n.t, n.runtime.Exit(p.UID, "app", 1))
			synctest.Wait()
		}
		n.expectRunning(len(n.all()))
	}},
	{name: "edit", do: func(n *flatNode) {
		for i := range n.bound {
			edited := *n.bound[i]
			edited.Labels = map[string]string{"edited": "true"}
			n.bound[i] = &edited
			n.binds(n.bound...)
		}
	}},
	// Audits and searches for leftovers, with the clock of the bubble.
	{name: "ten idle minutes", minutes: 10, do: func(*flatNode) { time.Sleep(time.Minute); synctest.Wait() }},
	{name: "delete folder", do: func(n *flatNode) { n.atOnce(); n.expectRunning(len(n.bound)) }},
	{name: "delete bound", do: func(n *flatNode) {
		for i := range n.bound {
			n.binds(n.bound[i+1:]...)
		}
		n.expectRunning(0)
	}},
}

// atOnce is wants for many pods. The watchers do not read meanwhile, and then receive the outcome:
// else the number of intermediate states that they see would depend on chance.
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
	return newFlatNode(startNode(t, fake.New(testImage), t.TempDir()), pods)
}

// newFlatNode makes a flatNode of a node that was started.
func newFlatNode(started *node, pods int) *flatNode {
	n := &flatNode{node: started}
	n.t.Helper()
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
	ctx, cancel := context.WithCancel(n.t.Context())
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
