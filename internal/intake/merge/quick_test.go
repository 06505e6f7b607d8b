package merge

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Whatever an API server sends, the quick way tells the same as the other.
func TestTheQuickWayHasTheSameResult(t *testing.T) {
	quicks := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		quick, all := incrementalMerger(t), incrementalMerger(t)
		var pods []*v1.Pod
		now := time.Unix(0, 0)
		for step := range 60 {
			now = now.Add(time.Second)
			pods = nextPods(random, pods, step)
			s := pod.Snapshot{Source: pod.SourceAPI, Op: pod.Set, Pods: slices.Clone(pods)}
			was := quick.source(pod.SourceAPI).known.byUID
			got, want := quick.Merge(s, now), all.applyFull(all.source(pod.SourceAPI), s, now)
			if step > 0 && reflect.ValueOf(was).Pointer() == reflect.ValueOf(quick.source(pod.SourceAPI).known.byUID).Pointer() {
				quicks++
			}
			if a, b := updatesText(got), updatesText(want); a != b {
				t.Fatalf("seed %d, step %d: got\n%s\nwant\n%s", seed, step, a, b)
			}
			if a, b := knownText(quick), knownText(all); a != b {
				t.Fatalf("seed %d, step %d: knows\n%s\nwant\n%s", seed, step, a, b)
			}
		}
	}
	if quicks < 1000 {
		t.Errorf("only %d snapshots went the quick way", quicks)
	}
}

func incrementalMerger(t *testing.T) *Merger {
	t.Helper()
	m, err := New(Incremental)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// nextPods changes a few pods: most are good, some are broken or have the UID or the name
// of another.
func nextPods(random *rand.Rand, before []*v1.Pod, step int) []*v1.Pod {
	pods := slices.Clone(before)
	for range 1 + random.IntN(3) {
		i := 0
		if len(pods) > 0 {
			i = random.IntN(len(pods))
		}
		switch n := random.IntN(12); {
		case n < 5 || len(pods) == 0:
			p := &v1.Pod{}
			p.Namespace, p.Name = "default", fmt.Sprint("web-", random.IntN(20))
			p.UID = pod.UID(fmt.Sprint("uid-", random.IntN(30)))
			p.Spec.Containers = []v1.Container{{Name: "app", Image: "app"}}
			pods = slices.Insert(pods, i, p)
		case n < 8:
			pods = slices.Delete(pods, i, i+1)
		case n < 11 && pods[i] != nil:
			p := pods[i].DeepCopy()
			switch random.IntN(3) {
			case 0:
				p.Labels = map[string]string{"step": fmt.Sprint(step)}
			case 1:
				p.Status.Message = fmt.Sprint(step)
			default:
				p.ResourceVersion = fmt.Sprint(step)
			}
			pods[i] = p
		case random.IntN(4) == 0:
			pods[i] = nil
		}
	}
	return pods
}

func updatesText(updates []pod.Update) string {
	text := ""
	for _, u := range updates {
		text += fmt.Sprintln(u.Op, len(u.Refused))
		for _, p := range u.Pods {
			text += fmt.Sprintln(" ", p.UID, p.Name, p.Labels, p.Status.Message, p.Annotations)
		}
	}
	return text
}

func knownText(m *Merger) string {
	k := m.source(pod.SourceAPI).known
	text := fmt.Sprintln(len(k.byUID), len(k.entries))
	for _, e := range k.entries {
		text += fmt.Sprintln(e.pod.UID, e.pod.Name, k.byUID[e.pod.UID] == e, e.pod.ResourceVersion)
	}
	return text
}
