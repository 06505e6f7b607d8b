package desired

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func newPod(source, name, uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: pod.UID(uid),
		Annotations: map[string]string{pod.AnnotationSource: source},
	}}
}

func newMirror(name, uid string) *v1.Pod {
	p := newPod(pod.SourceAPI, name, uid)
	p.Annotations[pod.AnnotationMirror] = "hash"
	return p
}

func setOf(pods ...*v1.Pod) *Set {
	s := New()
	for _, p := range pods {
		s.Upsert(p)
	}
	return s
}

func uids(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, string(p.UID))
	}
	return strings.Join(out, " ")
}

// found writes the answer of a lookup in short.
func found(p *v1.Pod, ok bool) string {
	if ok != (p != nil) {
		return "contradiction"
	}
	if !ok {
		return "none"
	}
	return string(p.UID)
}

func TestUpsertAndRemove(t *testing.T) {
	s := setOf(newPod(pod.SourceFile, "web", "w1"))

	edited := newPod(pod.SourceFile, "web", "w1")
	s.Upsert(edited)
	if p, _ := s.Get("w1"); p != edited {
		t.Error("the old version is still found by UID")
	}
	if p, _ := s.ByFullName("web_default"); p != edited {
		t.Error("the old version is still found by name")
	}

	s.Remove("w1")
	s.Remove("w1")
	if got := found(s.Get("w1")); got != "none" {
		t.Errorf("found by UID: %s", got)
	}
	if got := found(s.ByFullName("web_default")); got != "none" {
		t.Errorf("found by name: %s", got)
	}
	if len(s.Pods()) != 0 {
		t.Errorf("left over: %s", uids(s.Pods()))
	}
}

func TestPodsAreSortedAndTheCallersOwn(t *testing.T) {
	other := newPod(pod.SourceAPI, "a", "4")
	other.Namespace = "zoo"
	s := setOf(other, newPod(pod.SourceAPI, "b", "3"), newPod(pod.SourceAPI, "a", "2"), newPod(pod.SourceAPI, "a", "1"))

	got := s.Pods()
	if uids(got) != "1 2 3 4" {
		t.Errorf("order is %s", uids(got))
	}
	clear(got)
	if again := s.Pods(); slices.Contains(again, nil) {
		t.Error("the caller's slice is the set's own")
	}
}

func TestPodsAreFoundByName(t *testing.T) {
	young, old := newPod(pod.SourceAPI, "web", "young"), newPod(pod.SourceAPI, "web", "old")
	young.CreationTimestamp = metav1.NewTime(epoch.Add(time.Hour))
	old.CreationTimestamp = metav1.NewTime(epoch)
	static := newPod(pod.SourceFile, "web", "static")
	static.Annotations[pod.AnnotationSeen] = epoch.Add(-time.Hour).Format(time.RFC3339Nano)

	for name, test := range map[string]struct {
		pods []*v1.Pod
		want string
	}{
		"nobody":                      {nil, "none"},
		"the younger, coming last":    {[]*v1.Pod{old, young}, "young"},
		"the younger, coming first":   {[]*v1.Pod{young, old}, "young"},
		"a static pod before both":    {[]*v1.Pod{young, static, old}, "static"},
		"a static pod, coming first":  {[]*v1.Pod{static, young}, "static"},
		"no mirror":                   {[]*v1.Pod{newMirror("web", "m")}, "none"},
		"the pod, and not its mirror": {[]*v1.Pod{static, newMirror("web", "m")}, "static"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := found(setOf(test.pods...).ByFullName("web_default")); got != test.want {
				t.Errorf("found %s, wanted %s", got, test.want)
			}
		})
	}

	t.Run("the next, once the first is gone", func(t *testing.T) {
		s := setOf(young, old)
		s.Remove("young")
		if got := found(s.ByFullName("web_default")); got != "old" {
			t.Errorf("found %s", got)
		}
	})
}

func TestMirrorsArePaired(t *testing.T) {
	static, mirror := newPod(pod.SourceHTTP, "web", "s"), newMirror("web", "m")
	plain := newPod(pod.SourceAPI, "job", "j")
	lost := newMirror("gone", "l")
	usurper := newMirror("job", "u") // bears the name of a pod that is not static
	s := setOf(mirror, static, plain, lost, usurper)

	if got := uids(s.Pods()); got != "j s" {
		t.Errorf("pods to run are %s", got)
	}
	for _, test := range []struct{ what, got, want string }{
		{"mirror of the static pod", found(s.MirrorOf(static)), "m"},
		{"mirror of a plain pod", found(s.MirrorOf(plain)), "none"},
		{"mirror of a mirror", found(s.MirrorOf(mirror)), "none"},
		{"static pod of the mirror", found(s.StaticOf(mirror)), "s"},
		{"static pod of a lost mirror", found(s.StaticOf(lost)), "none"},
		{"static pod of a mirror of a plain pod", found(s.StaticOf(usurper)), "none"},
		{"static pod of a pod", found(s.StaticOf(static)), "none"},
		{"mirror by UID", found(s.Mirror("m")), "m"},
		{"a mirror is not a pod to run", found(s.Get("m")), "none"},
		{"a pod is not a mirror", found(s.Mirror("s")), "none"},
		{"orphans", uids(s.OrphanedMirrors()), "l u"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, wanted %s", test.what, test.got, test.want)
		}
	}

	s.Remove("s")
	if got := uids(s.OrphanedMirrors()); got != "l u m" {
		t.Errorf("after the static pod went, orphans are %s", got)
	}
	s.Remove("l")
	s.Remove("u")
	s.Remove("m")
	if got := s.OrphanedMirrors(); len(got) != 0 {
		t.Errorf("after the mirrors went, orphans are %s", uids(got))
	}
}

func TestAPodMayBecomeAMirror(t *testing.T) {
	s := setOf(newPod(pod.SourceAPI, "web", "w"))
	s.Upsert(newMirror("web", "w"))
	if got := found(s.Get("w")); got != "none" {
		t.Errorf("still to run: %s", got)
	}
	s.Upsert(newPod(pod.SourceAPI, "web", "w"))
	if got := found(s.Mirror("w")); got != "none" {
		t.Errorf("still a mirror: %s", got)
	}
}

// The race detector looks on.
func TestReadersAndTheWriter(t *testing.T) {
	s := New()
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, p := range s.Pods() {
					if got, ok := s.Get(p.UID); ok && got.Name != p.Name {
						t.Errorf("asked for %s, got %s", p.Name, got.Name)
					}
					s.MirrorOf(p)
				}
				s.OrphanedMirrors()
			}
		})
	}
	for i := range 300 {
		name := fmt.Sprintf("pod-%d", i%20)
		s.Upsert(newPod(pod.SourceFile, name, name))
		s.Upsert(newMirror(name, "mirror-"+name))
		if i%3 == 0 {
			s.Remove(pod.UID(name))
		}
	}
	close(done)
	readers.Wait()
}

func TestSubscribersReadWhatWasWritten(t *testing.T) {
	s := New()
	var seen []string
	s.Subscribe(func(uid pod.UID) {
		p, ok := s.Get(uid)
		seen = append(seen, fmt.Sprint(uid, ": ", found(p, ok)))
	})
	s.Upsert(newPod(pod.SourceFile, "web", "w1"))
	s.Upsert(newPod(pod.SourceFile, "web", "w2"))
	s.Remove("w1")
	if want := []string{"w1: w1", "w2: w2", "w1: none"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}
