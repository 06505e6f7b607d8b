package source

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/pod"
	"berth/internal/lib/secret"
)

// story records the output of a source in order: its snapshots, and the calls of Objects.
type story struct {
	t    *testing.T
	said chan string

	mu  sync.Mutex
	uid pod.UID // of the first pod of the last snapshot
}

func (s *story) objects(_ context.Context, objects []runtime.Object) {
	text := formatAll(pod.Snapshot{}, objects)
	s.said <- "objects" + strings.TrimPrefix(text, "SET")
}

// follow runs a source until the returned function is called.
func (s *story) follow(run func(context.Context, chan<- pod.Snapshot)) func() {
	out, stop := start(run)
	ended := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case snapshot := <-out:
				if len(snapshot.Pods) > 0 {
					s.mu.Lock()
					s.uid = snapshot.Pods[0].UID
					s.mu.Unlock()
				}
				s.said <- formatSnapshot(snapshot)
			case <-ended:
				return
			}
		}
	}()
	return func() {
		stop()
		close(ended)
		<-done
	}
}

func (s *story) want(lines ...string) {
	s.t.Helper()
	for _, want := range lines {
		select {
		case have := <-s.said:
			if have != want {
				s.t.Fatalf("have %q\nwant %q", have, want)
			}
		case <-time.After(30 * time.Second):
			s.t.Fatalf("nothing was said, want %q", want)
		}
	}
}

func (s *story) podUID() pod.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid
}

func newStory(t *testing.T) *story { return &story{t: t, said: make(chan string, 100)} }

// startFolder starts a source on the folder of a rig.
func (r *rig) startFolder(s *story) func() {
	r.t.Helper()
	f, err := NewFile(FileConfig{
		Path: r.dir, Node: "n", Interval: 20 * time.Second, State: r.state, Log: slog.New(slog.NewTextHandler(r.log, nil)), Objects: s.objects,
	})
	must(r.t, err)
	return s.follow(func(ctx context.Context, out chan<- pod.Snapshot) { f.run(ctx, out, r.watch) })
}

func TestObjectsOfAFolder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		// given a pod with what it refers to, in one file
		s := newStory(t)
		write(t, r.file("a.yaml"), web("a", "1")+"---\n"+settings("c", "x")+"---\n"+hush("s", "x"))
		stop := r.startFolder(s)

		// then they are handed on before it; at the very start there is nothing
		s.want("objects ", "objects map:c=x secret:s=x", "SET a-n=1")
		first := s.podUID()

		// when one of them is edited, then it is handed on, and the pod is the same
		write(t, r.file("a.yaml"), web("a", "1")+"---\n"+settings("c", "y")+"---\n"+hush("s", "x"))
		r.event("a.yaml")
		s.want("objects map:c=y secret:s=x")
		time.Sleep(time.Minute)
		if len(s.said) > 0 {
			t.Errorf("there is more: %s", <-s.said)
		}

		// when the pod alone is edited, then it is another pod, and the objects are not sent again
		write(t, r.file("a.yaml"), web("a", "2")+"---\n"+settings("c", "y")+"---\n"+hush("s", "x"))
		r.event("a.yaml")
		s.want("SET a-n=2")
		if s.podUID() == first {
			t.Error("it has the same UID")
		}

		// when one of them is broken, then its last good version stays, also over a restart
		write(t, r.file("a.yaml"), web("a", "2")+"---\n"+settings("c", "1")+"---\n"+hush("s", "z"))
		r.event("a.yaml")
		s.want("objects secret:s=z map:c=y", "SET a-n=2 !a.yaml:12 ConfigMap default/c kept=true")
		stop()
		stop = r.startFolder(s)
		s.want("objects secret:s=z map:c=y", "RESTORE a-n=2", "SET a-n=2 !a.yaml:12 ConfigMap default/c kept=true")

		// when the file is gone, then they are, too
		must(t, os.Remove(r.file("a.yaml")))
		r.event("a.yaml")
		s.want("objects ", "SET ")
		stop()
		stop = r.startFolder(s)
		defer stop()
		s.want("objects ", "SET ")
	})
}

func TestAPodIsCompletedByWhatItRefersTo(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		// given a class of pods that comes later than its pod
		s := newStory(t)
		known := 0
		f, err := NewFile(FileConfig{
			Path: r.dir, Node: "n", Interval: 20 * time.Second, State: r.state, Log: slog.New(slog.NewTextHandler(r.log, nil)),
			Objects: func(ctx context.Context, objects []runtime.Object) {
				known = len(objects)
				s.objects(ctx, objects)
			},
			Complete: func(p *v1.Pod) *v1.Pod {
				if known == 0 {
					return p
				}
				out := p.DeepCopy()
				out.Spec.Containers[0].Image = "filled"
				return out
			},
		})
		must(t, err)
		write(t, r.file("a.yaml"), web("a", "1"))
		defer s.follow(func(ctx context.Context, out chan<- pod.Snapshot) { f.run(ctx, out, r.watch) })()
		s.want("objects ", "SET a-n=1")
		first := s.podUID()

		// then the pod is sent again when it is there, as the same one
		write(t, r.file("c.yaml"), settings("c", "x"))
		r.event("c.yaml")
		s.want("objects map:c=x", "SET a-n=filled")
		if s.podUID() != first {
			t.Error("the pod is another one")
		}
		time.Sleep(time.Minute)
		if len(s.said) > 0 {
			t.Errorf("said twice: %q", <-s.said)
		}
	})
}

func TestAnObjectInTwoFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newStory(t)
		write(t, r.file("b.yaml"), settings("c", "b"))
		defer r.startFolder(s)()
		s.want("objects ", "objects map:c=b", "SET ")

		// The first by the names of the files counts, and the other is refused.
		write(t, r.file("c.yaml"), settings("c", "c")+"---\n"+web("a", "1"))
		r.event("c.yaml")
		s.want("SET a-n=1 !c.yaml:0 ConfigMap default/c kept=false")
		write(t, r.file("a.yaml"), settings("c", "a"))
		r.event("a.yaml")
		s.want("objects map:c=a", "SET a-n=1 !b.yaml:0 ConfigMap default/c kept=false !c.yaml:0 ConfigMap default/c kept=false")

		// When the first is gone, the next one comes in.
		must(t, os.Remove(r.file("a.yaml")))
		must(t, os.Remove(r.file("b.yaml")))
		r.event("a.yaml")
		s.want("objects map:c=c", "SET a-n=1")
	})
}

func TestObjectsOfAURL(t *testing.T) {
	t.Parallel()
	site := newSite(t, web("a", "1")+"---\n"+settings("c", "x"))
	state := filepath.Join(t.TempDir(), "http.json")
	follow := func(s *story) func() {
		h, err := NewHTTP(HTTPConfig{URL: secret.NewURL(site.URL), State: state, Node: "n", Interval: 2 * time.Millisecond, Log: quietLog(), Objects: s.objects})
		must(t, err)
		return s.follow(h.Run)
	}
	s := newStory(t)
	stop := follow(s)
	s.want("objects ", "objects map:c=x", "SET a-n=1")
	site.answer(http.StatusOK, web("a", "1")+"---\n"+settings("c", "y"))
	s.want("objects map:c=y")
	stop()

	// What was last good is there before the server answers, and if it does not.
	site.answer(http.StatusInternalServerError, "")
	s = newStory(t)
	stop = follow(s)
	s.want("objects map:c=y", "RESTORE a-n=1")
	stop()
	// Objects alone are remembered, too.
	site.answer(http.StatusOK, settings("c", "z"))
	s = newStory(t)
	stop = follow(s)
	s.want("objects map:c=y", "RESTORE a-n=1")
	s.want("objects map:c=z", "SET ")
	stop()
	site.answer(http.StatusInternalServerError, "")
	s = newStory(t)
	stop = follow(s)
	defer stop()
	s.want("objects map:c=z")
}
