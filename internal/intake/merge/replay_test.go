package merge

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/lib/pod"
)

// Whatever sources send, in whatever order, good or bad: who only hears the
// updates knows what the Merger knows, and that is what the rules ask for.
func FuzzReplay(f *testing.F) {
	f.Add([]byte{})
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		data := make([]byte, random.IntN(300))
		for i := range data {
			data[i] = byte(random.UintN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t)
		given := decode(data[:min(len(data), 500)])
		before := make([][]*v1.Pod, len(given))
		for i, s := range given {
			before[i] = deepCopies(s.Pods)
		}
		for i, s := range given {
			w.send(s, epoch.Add(time.Duration(i)*time.Second))
		}
		for i, s := range given {
			if !apiequality.Semantic.DeepEqual(s.Pods, before[i]) {
				t.Fatalf("snapshot %d was written to", i)
			}
		}
	})
}

// world is a Merger, and a reader that only knows its updates.
type world struct {
	t        *testing.T
	m        *Merger
	snapshot *Merger

	seen    map[string]map[pod.UID]*v1.Pod
	refused map[string][]pod.Refusal
	ready   map[string]bool
	last    map[string]pod.Snapshot // the newest Set of each source
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, m: newMerger(t, Incremental), snapshot: newMerger(t, Snapshot),
		seen: map[string]map[pod.UID]*v1.Pod{}, refused: map[string][]pod.Refusal{},
		ready: map[string]bool{}, last: map[string]pod.Snapshot{},
	}
	for _, source := range []string{pod.SourceFile, pod.SourceHTTP, pod.SourceAPI} {
		w.seen[source] = map[pod.UID]*v1.Pod{}
	}
	return w
}

func (w *world) send(s pod.Snapshot, now time.Time) {
	ignored := s.Op == pod.Restore && w.ready[s.Source]
	before := maps.Clone(w.seen[s.Source])
	clean := s.Op == pod.Set && w.isClean(s)

	w.apply(w.m.Merge(s, now))

	if !ignored && s.Op == pod.Set {
		w.last[s.Source] = s
		w.checkSet(s, before, clean)
	}
	if ignored && !maps.Equal(before, w.seen[s.Source]) {
		w.t.Fatalf("a restore after a set changed %s", s.Source)
	}
	w.checkState()
	w.checkSnapshotMode(s, now)
	w.checkNothingIsLeft(now)
}

// hear applies updates to the reader, and checks their order.
func (w *world) apply(updates []pod.Update) {
	order := map[pod.Op]int{pod.Remove: 0, pod.Add: 1, pod.Restore: 2, pod.Change: 3, pod.Delete: 4, pod.Reconcile: 5}
	at := 0
	touched := map[pod.UID]bool{}
	for i, u := range updates {
		if i > 0 && updates[i-1].Source != u.Source {
			at = 0 // the next source has its turn
		}
		if at > order[u.Op] {
			w.t.Fatalf("out of order: %s", formatUpdates(w.t, updates))
		}
		at = order[u.Op] + 1
		for _, p := range u.Pods {
			was, isKnown := w.seen[u.Source][p.UID]
			if isNew := u.Op == pod.Add || u.Op == pod.Restore; isNew == isKnown {
				w.t.Fatalf("%s of %s, known: %v", u.Op, p.UID, isKnown)
			}
			if u.Op == pod.Delete && p.DeletionTimestamp == nil {
				w.t.Fatalf("DELETE of %s, which has no deletion time", p.UID)
			}
			if touched[p.UID] && u.Op != pod.Add && u.Op != pod.Restore {
				w.t.Fatalf("%s is sent twice: %s", p.UID, formatUpdates(w.t, updates))
			}
			touched[p.UID] = true
			if isKnown && pod.FirstSeen(p) != pod.FirstSeen(was) {
				w.t.Fatalf("%s was first seen at %v and then at %v", p.UID, pod.FirstSeen(was), pod.FirstSeen(p))
			}
			if pod.Source(p) != u.Source {
				w.t.Fatalf("%s of %s says source %s", u.Op, u.Source, pod.Source(p))
			}
			if u.Op == pod.Remove {
				delete(w.seen[u.Source], p.UID)
			} else {
				w.seen[u.Source][p.UID] = p
			}
		}
		w.refused[u.Source] = u.Refused
		if u.Op == pod.Add {
			w.ready[u.Source] = true
		}
	}
}

// isClean reports whether a snapshot has no pod to refuse.
func (w *world) isClean(s pod.Snapshot) bool {
	uids, names := map[pod.UID]bool{}, map[string]bool{}
	for source, pods := range w.seen {
		for _, p := range pods {
			if source != s.Source {
				uids[p.UID] = true
				names[pod.FullName(p)] = names[pod.FullName(p)] || isStatic(source)
			}
		}
	}
	for _, p := range s.Pods {
		if p == nil || p.UID == "" || len(p.Spec.Containers) == 0 || uids[p.UID] {
			return false
		}
		if was := w.seen[s.Source][p.UID]; was != nil && was.Name != p.Name {
			return false
		}
		if isStatic(s.Source) && (names[pod.FullName(p)] || pod.IsMirror(p)) {
			return false
		}
		uids[p.UID], names[pod.FullName(p)] = true, true
	}
	return true
}

// checkSet compares the pods that the reader has of a source with the snapshot.
func (w *world) checkSet(s pod.Snapshot, before map[pod.UID]*v1.Pod, clean bool) {
	refused := w.refused[s.Source]
	if !w.ready[s.Source] {
		w.t.Fatalf("%s is not ready after a set", s.Source)
	}
	if len(refused) < len(s.Refused) || !slices.Equal(refused[:len(s.Refused)], s.Refused) {
		w.t.Fatalf("the source refused %v, reported was %v", s.Refused, refused)
	}
	ours := refused[len(s.Refused):]
	keeps := 0
	for _, r := range ours {
		if r.Kept {
			keeps++
		}
	}
	fromSnapshot, kept := 0, 0
	for uid, p := range w.seen[s.Source] {
		sent := slices.ContainsFunc(s.Pods, func(q *v1.Pod) bool { return q != nil && sameButOurs(p, q) })
		switch {
		case sent:
			fromSnapshot++
		case before[uid] == p:
			kept++
		default:
			w.t.Fatalf("%s was neither sent nor known", uid)
		}
	}
	if kept > keeps {
		w.t.Fatalf("%d pods of %s stayed, and %d refusals say so", kept, s.Source, keeps)
	}
	// A pod that stays may look just like a broken version of itself that took
	// another's UID, so the sum is exact only without such pods.
	if keeps == 0 && fromSnapshot+len(ours) != len(s.Pods) {
		w.t.Fatalf("%d pods sent, %d taken, %d refused", len(s.Pods), fromSnapshot, len(ours))
	}
	if clean && (len(ours) != 0 || fromSnapshot != len(s.Pods) || kept != 0) {
		w.t.Fatalf("a clean snapshot of %d: %d taken, %d kept, refused %v", len(s.Pods), fromSnapshot, kept, ours)
	}
}

// sameButOurs compares a pod of a source with the delivered one. Resource versions may differ: a new
// one alone causes no update.
func sameButOurs(delivered, sent *v1.Pod) bool {
	return delivered.UID == sent.UID && delivered.Name == sent.Name && sameOrder(delivered, sent) &&
		delivered.Status.Phase == sent.Status.Phase
}

// checkState checks the invariants of the Merger.
func (w *world) checkState() {
	uids, names := map[pod.UID]bool{}, map[string]bool{}
	total := 0
	for source, pods := range w.seen {
		if !slices.Equal(w.refused[source], w.m.source(source).refused) {
			w.t.Fatalf("refusals of %s: sent %v, held %v", source, w.refused[source], w.m.source(source).refused)
		}
		if w.ready[source] != w.m.Ready(source) {
			w.t.Fatalf("%s ready: sent %v, held %v", source, w.ready[source], w.m.Ready(source))
		}
		for uid, p := range pods {
			held := w.m.source(source).known.byUID[uid]
			if held == nil || !sameButOurs(p, held.pod) {
				w.t.Fatalf("%s of %s is not what the merger holds", uid, source)
			}
			if uids[uid] {
				w.t.Fatalf("UID %s is there twice", uid)
			}
			uids[uid] = true
			if isStatic(source) && names[pod.FullName(p)] {
				w.t.Fatalf("name %s is there twice", p.Name)
			}
			names[pod.FullName(p)] = names[pod.FullName(p)] || isStatic(source)
			total++
		}
	}
	if all := w.m.all(); len(all) != total {
		w.t.Fatalf("the merger holds %d pods, %d were sent", len(all), total)
	}
}

// checkSnapshotMode checks that a SET has the same pods as the increments.
func (w *world) checkSnapshotMode(s pod.Snapshot, now time.Time) {
	updates := w.snapshot.Merge(s, now)
	if len(updates) == 0 {
		return
	}
	last := updates[len(updates)-1]
	if last.Op != pod.Set || !apiequality.Semantic.DeepEqual(last.Pods, w.m.all()) {
		w.t.Fatalf("snapshot mode sent %s", formatUpdates(w.t, updates))
	}
}

// checkNothingIsLeft sends everything once more: no pod may have been waiting
// for that. Only the wording of a refusal may change, where two reasons hold.
func (w *world) checkNothingIsLeft(now time.Time) {
	for source, s := range w.last {
		updates := w.m.Merge(s, now)
		for _, u := range updates {
			if len(u.Pods) > 0 {
				w.t.Fatalf("sending %s again sent %s", source, formatUpdates(w.t, updates))
			}
		}
		w.apply(updates)
		w.snapshot.Merge(s, now)
	}
}
