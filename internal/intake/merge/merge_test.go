package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC)

func newMerger(t testing.TB, mode Mode) *Merger {
	t.Helper()
	m, err := New(mode)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newPod(name, uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: pod.UID(uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "localhost/app:1"}}},
	}
}

func set(source string, pods ...*v1.Pod) pod.Snapshot {
	return pod.Snapshot{Source: source, Op: pod.Set, Pods: pods}
}

func restored(source string, pods ...*v1.Pod) pod.Snapshot {
	return pod.Snapshot{Source: source, Op: pod.Restore, Pods: pods}
}

// only returns the one pod of the one update that is expected.
func only(t *testing.T, updates []pod.Update, op pod.Op) *v1.Pod {
	t.Helper()
	if len(updates) != 1 || updates[0].Op != op || len(updates[0].Pods) != 1 {
		t.Fatalf("got %s, wanted one %s of one pod", formatUpdates(t, updates), op)
	}
	return updates[0].Pods[0]
}

func TestNewRefusesAnUnknownMode(t *testing.T) {
	for _, mode := range []Mode{-1, 3} {
		if _, err := New(mode); err == nil {
			t.Errorf("mode %d was accepted", mode)
		}
	}
}

func TestSourceAndFirstSeenAreNoted(t *testing.T) {
	m := newMerger(t, Incremental)
	given := newPod("web", "w1")
	given.Annotations = map[string]string{"team": "blue", pod.AnnotationSource: "file", pod.AnnotationSeen: "long ago"}

	p := only(t, m.Merge(set(pod.SourceAPI, given), epoch), pod.Add)

	if pod.Source(p) != pod.SourceAPI {
		t.Errorf("source is %q", pod.Source(p))
	}
	if !pod.FirstSeen(p).Equal(epoch) {
		t.Errorf("first seen at %q", p.Annotations[pod.AnnotationSeen])
	}
	if p.Annotations["team"] != "blue" {
		t.Errorf("annotations are %v", p.Annotations)
	}
	if given.Annotations[pod.AnnotationSeen] != "long ago" {
		t.Error("the pod that was handed in was written to")
	}
}

func TestFirstSeenOutlivesEdits(t *testing.T) {
	m := newMerger(t, Incremental)
	m.Merge(set(pod.SourceAPI, newPod("web", "w1")), epoch)
	edited := newPod("web", "w1")
	edited.Labels = map[string]string{"a": "b"}

	p := only(t, m.Merge(set(pod.SourceAPI, edited), epoch.Add(time.Hour)), pod.Change)

	if !pod.FirstSeen(p).Equal(epoch) {
		t.Errorf("first seen at %v", pod.FirstSeen(p))
	}
}

func TestRestoreKeepsTheTimeItRemembers(t *testing.T) {
	before := epoch.Add(-24 * time.Hour)
	remembered := newPod("web", "w1")
	remembered.Annotations = map[string]string{pod.AnnotationSeen: before.Format(time.RFC3339Nano)}
	for name, test := range map[string]struct {
		given *v1.Pod
		want  time.Time
	}{
		"with a time":    {remembered, before},
		"without a time": {newPod("web", "w1"), epoch},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMerger(t, Incremental)
			p := only(t, m.Merge(restored(pod.SourceAPI, test.given), epoch), pod.Restore)
			if !pod.FirstSeen(p).Equal(test.want) {
				t.Errorf("first seen at %v, wanted %v", pod.FirstSeen(p), test.want)
			}

			// The source then sends the pod without our annotations.
			edited := newPod("web", "w1")
			edited.Labels = map[string]string{"a": "b"}
			updates := m.Merge(set(pod.SourceAPI, edited), epoch.Add(time.Hour))
			changed := updates[len(updates)-1]
			if changed.Op != pod.Change || !pod.FirstSeen(changed.Pods[0]).Equal(test.want) {
				t.Errorf("then got %s first seen at %v", changed.Op, pod.FirstSeen(changed.Pods[0]))
			}
		})
	}
}

func TestReady(t *testing.T) {
	m := newMerger(t, Incremental)

	m.Merge(restored(pod.SourceAPI, newPod("web", "w1")), epoch)
	if m.Ready(pod.SourceAPI) || len(m.ReadySources()) != 0 {
		t.Error("a restore made its source ready")
	}

	m.Merge(set(pod.SourceFile), epoch)
	m.Merge(set(pod.SourceAPI), epoch)
	if !m.Ready(pod.SourceAPI) || !m.Ready(pod.SourceFile) || m.Ready(pod.SourceHTTP) {
		t.Errorf("ready are %v", m.ReadySources())
	}
	if got := m.ReadySources(); !slices.Equal(got, []string{pod.SourceAPI, pod.SourceFile}) {
		t.Errorf("ready are %v", got)
	}
}

func TestOtherOperationsAreIgnored(t *testing.T) {
	m := newMerger(t, Incremental)
	m.Merge(set(pod.SourceAPI, newPod("web", "w1")), epoch)
	for _, op := range []pod.Op{pod.Add, pod.Change, pod.Delete, pod.Remove, pod.Reconcile} {
		s := pod.Snapshot{Source: pod.SourceAPI, Op: op, Pods: []*v1.Pod{newPod("db", "d1")}}
		if got := m.Merge(s, epoch); got != nil {
			t.Errorf("%s was answered with %s", op, formatUpdates(t, got))
		}
	}
}

func TestWhatMatters(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*v1.Pod)
		want []pod.Op
	}{
		"nothing":             {func(*v1.Pod) {}, nil},
		"resource version":    {func(p *v1.Pod) { p.ResourceVersion = "2" }, nil},
		"managed fields":      {func(p *v1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} }, nil},
		"empty, not missing":  {func(p *v1.Pod) { p.Labels, p.Spec.Volumes = map[string]string{}, []v1.Volume{} }, nil},
		"same quantity":       {func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("1000m")} }, nil},
		"our own annotations": {func(p *v1.Pod) { p.Annotations = map[string]string{pod.AnnotationHash: "h"} }, nil},
		"spec":                {func(p *v1.Pod) { p.Spec.HostNetwork = true }, []pod.Op{pod.Change}},
		"label":               {func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, []pod.Op{pod.Change}},
		"annotation":          {func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, []pod.Op{pod.Change}},
		"becomes a mirror":    {func(p *v1.Pod) { p.Annotations = map[string]string{pod.AnnotationMirror: "h"} }, []pod.Op{pod.Change}},
		"grace period":        {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }, []pod.Op{pod.Change}},
		"deletion time":       {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }, []pod.Op{pod.Delete}},
		"status":              {func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, []pod.Op{pod.Reconcile}},
		"spec and status": {func(p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Spec.HostNetwork = true
		}, []pod.Op{pod.Change}},
		"spec and deletion time": {func(p *v1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: epoch}
			p.Spec.HostNetwork = true
		}, []pod.Op{pod.Delete}},
	} {
		t.Run(name, func(t *testing.T) {
			// Given a known pod,
			m := newMerger(t, Incremental)
			first := newPod("web", "w1")
			first.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("1")}
			m.Merge(set(pod.SourceAPI, first), epoch)
			// when it comes edited,
			edited := first.DeepCopy()
			test.edit(edited)
			updates := m.Merge(set(pod.SourceAPI, edited), epoch)
			// then there is an update,
			var ops []pod.Op
			for _, u := range updates {
				ops = append(ops, u.Op)
			}
			if !slices.Equal(ops, test.want) {
				t.Errorf("got %v, wanted %v", ops, test.want)
			}
			// and the newest version is known, with or without an update.
			last := only(t, m.Merge(set(pod.SourceAPI), epoch), pod.Remove)
			if last.ResourceVersion != edited.ResourceVersion || len(last.ManagedFields) != len(edited.ManagedFields) {
				t.Error("an old version was held")
			}
		})
	}
}

func TestBrokenPodsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*v1.Pod)
		want string
	}{
		"no name":                {func(p *v1.Pod) { p.Name = "" }, "no name"},
		"no namespace":           {func(p *v1.Pod) { p.Namespace = "" }, "no namespace"},
		"no UID":                 {func(p *v1.Pod) { p.UID = "" }, "no UID"},
		"no containers":          {func(p *v1.Pod) { p.Spec.Containers = nil }, "no containers"},
		"UID leads up":           {func(p *v1.Pod) { p.UID = ".." }, "metadata.uid \"..\" can't be part of a path"},
		"UID with a slash":       {func(p *v1.Pod) { p.UID = "a/b" }, "metadata.uid"},
		"UID with a line break":  {func(p *v1.Pod) { p.UID = "a\n" }, "metadata.uid"},
		"UID begins with a dash": {func(p *v1.Pod) { p.UID = "-rf" }, "metadata.uid"},
		"UID without end":        {func(p *v1.Pod) { p.UID = pod.UID(strings.Repeat("a", 254)) }, "metadata.uid"},
		"name with a slash":      {func(p *v1.Pod) { p.Name = "a/../b" }, "metadata.name"},
		"namespace with a slash": {func(p *v1.Pod) { p.Namespace = "/" }, "metadata.namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMerger(t, Incremental)
			broken := newPod("web", "w1")
			test.edit(broken)

			updates := m.Merge(set(pod.SourceFile, broken, newPod("good", "g1")), epoch)

			if p := only(t, updates, pod.Add); p.Name != "good" {
				t.Errorf("added %s", p.Name)
			}
			refused := updates[0].Refused
			if len(refused) != 1 || !strings.Contains(refused[0].Message, test.want) || len(refused[0].Message) > 300 {
				t.Errorf("refused %v, wanted %q", refused, test.want)
			}
		})
	}
}

func TestAnEmptyEntryIsRefused(t *testing.T) {
	m := newMerger(t, Incremental)
	updates := m.Merge(set(pod.SourceFile, nil, newPod("good", "g1")), epoch)
	only(t, updates, pod.Add)
	if len(updates[0].Refused) != 1 {
		t.Errorf("refused %v", updates[0].Refused)
	}
}

func TestUnchangedPodsAreNotCopied(t *testing.T) {
	m := newMerger(t, Incremental)
	s := set(pod.SourceAPI, manyPods(500)...)
	m.Merge(s, epoch)
	few := testing.AllocsPerRun(10, func() {
		if got := m.Merge(s, epoch); got != nil {
			t.Fatalf("reported %s", formatUpdates(t, got))
		}
	})
	if few > 100 {
		t.Errorf("500 unchanged pods cost %v allocations", few)
	}
}

func manyPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("uid-%d", i))
		pods[i].Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}}
		pods[i].Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", Ready: true}}
	}
	return pods
}

// BenchmarkMerge500 takes in 500 unchanged pods: the same objects, as an informer
// sends them, and equal ones, as a reader of manifests makes them.
func BenchmarkMerge500(b *testing.B) {
	pods := manyPods(500)
	same, equal := set(pod.SourceAPI, pods...), set(pod.SourceAPI, deepCopies(pods)...)
	b.Run("same", func(b *testing.B) {
		m := newMerger(b, Incremental)
		b.ReportAllocs()
		for b.Loop() {
			m.Merge(same, epoch)
		}
	})
	b.Run("equal", func(b *testing.B) {
		m := newMerger(b, Incremental)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%2 == 0 {
				m.Merge(same, epoch)
			} else {
				m.Merge(equal, epoch)
			}
		}
	})
}
