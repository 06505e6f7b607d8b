package agent_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/shutdown"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// walk is a node to which random things happen, and a reader that follows its changes.
type walk struct {
	*node
	t       *testing.T
	random  *rand.Rand
	runtime *fake.Runtime
	dir     string
	manager *shutdown.Manager

	static, bound []*v1.Pod // what the sources have
	refused       []pod.Refusal
	drained       bool
	shown         map[pod.UID]*v1.Pod // pods as the reader has them
	version       uint64
	log           []string
}

func (w *walk) start() {
	w.node = startNode(w.t, w.runtime, w.dir)
	w.manager = w.drains()
	w.shown, w.version, w.drained = map[pod.UID]*v1.Pod{}, 0, false
}

// choose returns some of the pods that a folder may have.
func (w *walk) choose() (static []*v1.Pod, refused []pod.Refusal) {
	edited := webPod("a-edited")
	edited.Name = webPod("a").Name
	for _, p := range []*v1.Pod{webPod("a"), webPod("b"), onPort("c"), onPort("d")} {
		switch n := w.random.IntN(6); {
		case n < 3:
			static = append(static, p)
		case n == 3 && p.UID == "a":
			static = append(static, edited)
		case n > 3 && slices.Contains(w.refused, unread(p)):
			refused = append(refused, unread(p)) // as before
		}
	}
	return static, refused
}

func (w *walk) step() {
	var what string
	switch n := w.random.IntN(10); n {
	case 0, 1, 2:
		w.static, w.refused = w.choose()
		what = fmt.Sprint("folder ", uidsOf(w.static), len(w.refused))
		w.wantsBeside(w.refused, w.static...)
	case 3:
		w.bound = nil
		for _, uid := range []pod.UID{"x", "y"} {
			if w.random.IntN(2) == 0 {
				w.bound = append(w.bound, bound(uid))
			}
		}
		what = fmt.Sprint("server ", uidsOf(w.bound))
		w.binds(w.bound...)
	case 4, 5:
		uid := []pod.UID{"a", "b", "c", "d", "x"}[w.random.IntN(5)]
		what = fmt.Sprint("exit ", uid)
		_ = w.runtime.Exit(uid, "app", int32(w.random.IntN(2)))
	case 6:
		if w.drained = !w.drained; w.drained {
			what = "drain"
			_, err := w.manager.Drain(w.t.Context(), shutdown.Order{}, func(shutdown.Progress) {})
			must(w.t, err)
		} else {
			what = "undo"
			w.undone(w.manager)
		}
	case 7:
		what = "debug"
		_ = w.agent.AddContainer(w.t.Context(), webPod("b"), debugger(fmt.Sprint("look", len(w.log))))
	case 8:
		w.restart()
		what = fmt.Sprint("restart ", uidsOf(w.static), w.refused)
	default:
		d := time.Duration(w.random.IntN(120)) * time.Second
		what = fmt.Sprint("wait ", d)
		time.Sleep(d)
	}
	w.log = append(w.log, what)
	if w.random.IntN(2) == 0 {
		synctest.Wait()
	}
}

// restart starts another agent, which restores the pods of its folder and then reads it.
func (w *walk) restart() {
	w.stop()
	if w.random.IntN(4) == 0 {
		w.runtime = fake.New(testImage) // with the machine
	}
	w.static = slices.DeleteFunc(slices.Clone(w.static), func(p *v1.Pod) bool {
		lost := p.UID == "b" && w.random.IntN(4) == 0 // of the others, admission would have to know the port
		if lost {                                     // the next version can't read it
			w.refused = append(slices.Clone(w.refused), unread(p))
		}
		return lost
	})
	release := w.runtime.Hold("List")
	w.start()
	steps := []func(){
		release,
		func() {
			w.snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Restore, Pods: w.static, Refused: w.refused}
			synctest.Wait()
			if w.random.IntN(2) == 0 {
				w.static, w.refused = w.choose()
			}
		},
		func() { w.binds(w.bound...) },
	}
	w.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
		synctest.Wait()
	}
	w.wantsBeside(w.refused, w.static...)
}

func uidsOf(pods []*v1.Pod) (out []pod.UID) {
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}

// follow brings the reader up to date.
func (w *walk) follow() {
	c := w.agent.Since(w.version)
	if c.All {
		clear(w.shown)
	}
	for _, uid := range c.Gone {
		delete(w.shown, uid)
	}
	for _, p := range c.Pods {
		w.shown[p.UID] = p
	}
	w.version = c.Version
}

// truth returns the state that readers should see, built without the view.
func (w *walk) truth() map[pod.UID]string {
	out := map[pod.UID]string{}
	show := func(uid pod.UID, leaves bool) {
		s, _ := w.agent.Statuses.Get(uid)
		out[uid] = fmt.Sprint(s.Phase, s.Reason, leaves)
	}
	for _, p := range w.agent.Desired.Pods() {
		show(p.UID, false)
	}
	for _, r := range w.refused {
		show(r.UID, false)
	}
	for uid, l := range w.pool.Lives() {
		_, found := w.agent.Statuses.Get(uid)
		if l.Removed && l.Phase != worker.Gone && (l.Phase != worker.Terminated || found) {
			show(uid, true)
		}
	}
	return out
}

func (w *walk) check() {
	w.t.Helper()
	synctest.Wait()
	w.follow()
	have := map[pod.UID]string{}
	for uid, p := range w.shown {
		s := p.Status
		if _, found := w.agent.Statuses.Get(uid); !found {
			s = v1.PodStatus{}
		}
		have[uid] = fmt.Sprint(s.Phase, s.Reason, p.DeletionTimestamp != nil)
	}
	if want := w.truth(); !maps.Equal(have, want) {
		w.t.Fatalf("the reader has %v, and it is %v\n%q", have, want, w.log)
	}
}

// settle waits until the node is idle, and expects it to run the right pods.
func (w *walk) settle() {
	t := w.t
	t.Helper()
	if w.drained {
		w.undone(w.manager)
		w.drained = false
	}
	time.Sleep(time.Hour)
	w.check()
	have, err := w.runtime.List(t.Context())
	must(t, err)
	ports := 0
	for _, p := range w.static {
		o := have[p.UID]
		running := o != nil && o.Running()
		if p.UID == "c" || p.UID == "d" {
			if running {
				ports++
			}
			continue
		}
		if !running {
			t.Errorf("%s does not run: %+v", p.UID, w.shown[p.UID].Status)
		}
	}
	if asked := slices.ContainsFunc(w.static, func(p *v1.Pod) bool { return p.UID == "c" || p.UID == "d" }); asked != (ports == 1) {
		t.Errorf("%d pods have the port", ports)
	}
	for uid := range have {
		wanted := slices.Contains(uidsOf(w.static), uid) || slices.Contains(uidsOf(w.bound), uid) ||
			slices.ContainsFunc(w.refused, func(r pod.Refusal) bool { return r.UID == uid })
		if !wanted {
			t.Errorf("%s is still there", uid)
		}
	}
	if t.Failed() {
		t.Fatalf("after %q", w.log)
	}
}

// A reader that follows changes sees the same pods as a list, and in the end each pod of the sources runs once, and no other pod.
func TestWhateverHappensTheNodeComesToRest(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := &walk{t: t, random: rand.New(rand.NewPCG(seed, 1)), runtime: fake.New(testImage), dir: t.TempDir()}
				w.start()
				defer func() { w.stop() }()
				w.wants()
				w.binds()
				for range 40 {
					w.step()
					w.check()
				}
				w.settle()
			})
		})
	}
}
