package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

func TestAnObjectIsWatchedByNameFromTheFirstPodToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(configMapOf("a", "1"))
		s.put(secretOf("s", "1"))
		s.put(configMapOf("other", "1"))
		n := startNode(t, s)
		synctest.Wait()
		if len(s.watching()) > 0 {
			t.Errorf("nobody asked for it, and watched are %v", s.watching())
		}

		n.Register(podWith("p", "a", "s"))
		n.Register(podWith("p", "a", "s")) // once more changes nothing
		n.Register(podWith("q", "a"))
		synctest.Wait()
		want := func(have []string, want ...string) {
			t.Helper()
			if strings.Join(have, ", ") != strings.Join(want, ", ") {
				t.Errorf("have %q, want %q", have, want)
			}
		}
		want(s.watching(), "configmaps default/a", "secrets default/s")
		want(s.asked("configmaps"), "get configmaps default/a", "stream configmaps default/a")
		c := n.want(t, "a", "1")
		if c.ManagedFields != nil {
			t.Error("the managed fields are kept")
		}
		secret, err := n.Secret(t.Context(), "default", "s")
		must(t, err)
		if string(secret.Data["key"]) != "1" {
			t.Errorf("have %v", secret.Data)
		}
		if asked := s.asked("configmaps"); len(asked) > 0 {
			t.Errorf("what is known is asked for again: %v", asked)
		}

		// When a new version of the pod no longer refers to one of them.
		n.Register(podWith("p", "a"))
		synctest.Wait()
		want(s.watching(), "configmaps default/a")
		// When one of the two pods goes, and when the other does.
		n.Unregister("p")
		n.Unregister("p")
		synctest.Wait()
		want(s.watching(), "configmaps default/a")
		n.Unregister("q")
		synctest.Wait()
		want(s.watching())
		if n.news() != "" {
			t.Error("pods were notified of a change, and there was none")
		}
	})
}

func TestPodsAreNotifiedWhenTheContentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(configMapOf("a", "1"))
		s.put(configMapOf("b", "1"))
		n := startNode(t, s)
		n.Register(podWith("p", "a", "b"))
		n.Register(podWith("q", "a"))
		n.want(t, "a", "1")
		synctest.Wait()

		wantNews := func(want string) {
			t.Helper()
			synctest.Wait()
			if have := n.news(); have != want {
				t.Errorf("enqueued were %q, want %q", have, want)
			}
		}
		wantNews("")
		s.put(configMapOf("a", "2"))
		wantNews("p q")
		n.want(t, "a", "2")
		s.put(configMapOf("b", "2"))
		wantNews("p")

		// A label is not of the content, and kubectl's copy of the content is not kept.
		labelled := configMapOf("a", "2")
		labelled.Labels = map[string]string{"x": "y"}
		labelled.Annotations = map[string]string{lastApplied: "{}", "mine": "yes"}
		s.put(labelled)
		wantNews("")
		if c := n.want(t, "a", "2"); c.Labels["x"] != "y" || len(c.Annotations) != 1 {
			t.Errorf("have %v", c)
		}
		// A watch that ends is resumed, and no pod is enqueued.
		s.asked("configmaps")
		s.cut()
		wantNews("")
		if asked := strings.Join(s.asked("configmaps default/a"), ", "); asked != "watch configmaps default/a" {
			t.Errorf("asked for %q", asked)
		}
		s.remove(configMapOf("a", "2"))
		wantNews("p q")
		if _, err := n.ConfigMap(t.Context(), "default", "a"); !apierrors.IsNotFound(err) {
			t.Errorf("it was deleted, and the getter says: %v", err)
		}
		binary := configMapOf("a", "2")
		binary.BinaryData = map[string][]byte{"x": {0}}
		s.put(binary)
		wantNews("p q")
		binary = binary.DeepCopy()
		binary.BinaryData["x"] = []byte{1}
		s.put(binary)
		wantNews("p q")
	})
}

func TestAMissingObjectIsSaidToBeAtOnceAndPushedWhenItAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		n := startNode(t, s)
		n.Register(podWith("p", "a", "s"))
		began := time.Now()
		_, err := n.ConfigMap(t.Context(), "default", "a")
		if !apierrors.IsNotFound(err) || err.Error() != `configmap "a" not found` {
			t.Errorf("have %v", err)
		}
		if _, err := n.Secret(t.Context(), "default", "s"); !apierrors.IsNotFound(err) || err.Error() != `secret "s" not found` {
			t.Errorf("have %v", err)
		}
		if time.Since(began) > 0 {
			t.Errorf("it took %s", time.Since(began))
		}
		synctest.Wait()
		s.put(configMapOf("a", "1"))
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p" {
			t.Errorf("enqueued were %q", enqueued)
		}
		n.want(t, "a", "1")
	})
}

func TestAnImmutableObjectIsNotWatched(t *testing.T) {
	forever := func(c *v1.ConfigMap) *v1.ConfigMap {
		c.Immutable = new(true)
		return c
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(forever(configMapOf("a", "1")))
		s.put(configMapOf("b", "1"))
		n := startNode(t, s)
		n.Register(podWith("p", "a", "b"))
		n.want(t, "a", "1")
		synctest.Wait()
		if w := strings.Join(s.watching(), ", "); w != "configmaps default/b" {
			t.Errorf("watched are %s", w)
		}
		s.put(forever(configMapOf("b", "1")))
		synctest.Wait()
		if w := s.watching(); len(w) > 0 || n.news() != "" {
			t.Errorf("watched are %v", w)
		}

		// It is deleted and made again. Pods that run do not see that, until another one
		// refers to it.
		s.remove(configMapOf("a", "1"))
		s.put(forever(configMapOf("a", "2")))
		n.Register(podWith("p", "a", "b"))
		synctest.Wait()
		n.want(t, "a", "1")
		n.Register(podWith("q", "a"))
		n.want(t, "a", "2")
		synctest.Wait()
		if enqueued, w := n.news(), s.watching(); enqueued != "p q" || len(w) > 0 {
			t.Errorf("enqueued were %q, watched are %v", enqueued, w)
		}

		// The same while the server is away: what is known is used, and found out later.
		s.remove(configMapOf("a", "2"))
		s.put(configMapOf("a", "3"))
		s.fail(errDown)
		n.Register(podWith("r", "a"))
		n.want(t, "a", "2")
		s.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		n.want(t, "a", "3")
		if enqueued, w := n.news(), strings.Join(s.watching(), ", "); enqueued != "p q r" || w != "configmaps default/a" {
			t.Errorf("enqueued were %q, watched are %v", enqueued, w)
		}
	})
}

func TestAnObjectOfNoRegisteredPodIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(secretOf("s", "hidden"))
		n := newNode(t, s) // it need not even run
		secret, err := n.Secret(t.Context(), "default", "s")
		must(t, err)
		if string(secret.Data["key"]) != "hidden" || secret.ManagedFields != nil {
			t.Errorf("have %v", secret)
		}
		if _, err := n.Secret(t.Context(), "default", "none"); !apierrors.IsNotFound(err) {
			t.Errorf("have %v", err)
		}
		s.fail(errDown)
		if _, err := n.ConfigMap(t.Context(), "default", "c"); err == nil || !strings.Contains(err.Error(), "read configmap default/c: ") {
			t.Errorf("have %v", err)
		}
	})
}

// An API server tells of a pod a moment before it knows that the node may read what the
// pod refers to.
// While the API server is away, what is known is handed out; it is asked whether it is
// back by few, which is said once; and when it is, everything catches up.
// One Secret that the server can't read must not hold up the others.
// Whatever the server sends, nothing of a Secret gets into a log or an error.
func TestTheContentOfASecretIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(secretOf("s", "hush-hush"))
		n := startNode(t, s)
		n.Register(podWith("p", "s"))
		synctest.Wait()
		s.mu.Lock()
		for w := range s.watches {
			if w.name == "s" {
				w.out <- []byte(`{"type":"MODIFIED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"key":"hush-hush"}}}` + "\n")
				w.out <- []byte(`{"type":"NONSENSE","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"stringData":{"key":"hush-hush"}}}` + "\n")
			}
		}
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if said := n.log.String(); strings.Contains(said, "hush") {
			t.Errorf("the log:\n%s", said)
		}
		secret, err := n.Secret(t.Context(), "default", "s")
		must(t, err)
		if string(secret.Data["key"]) != "hush-hush" {
			t.Error("the secret is no longer the one that it was")
		}
	})
}

func TestABusyLoopHoldsUpOnlyTheNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(configMapOf("a", "1"))
		busy := make(chan struct{})
		a, err := NewAPI(APIConfig{Client: s.client(), Log: newNode(t, s).Log, Enqueue: func(ctx context.Context, _ pod.UID) {
			select {
			case <-busy:
			case <-ctx.Done():
			}
		}})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.Run(ctx)
		}()
		a.Register(podWith("p", "a"))
		synctest.Wait()
		s.put(configMapOf("a", "2"))
		synctest.Wait()
		a.Register(podWith("q", "a"))
		c, err := a.ConfigMap(t.Context(), "default", "a")
		must(t, err)
		if c.Data["key"] != "2" {
			t.Errorf("have %v", c.Data)
		}
		a.Unregister("q")
		cancel() // the loop is never free again, and still everything ends
		<-done
	})
}

func TestManyAtTheSameTime(t *testing.T) {
	s := newServer(t)
	for i := range 4 {
		s.put(configMapOf(fmt.Sprint("c", i), "1"))
	}
	n := startNode(t, s)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			uid, name := fmt.Sprint("p", i), fmt.Sprint("c", i%4)
			for range 20 {
				n.Register(podWith(uid, name))
				if _, err := n.ConfigMap(t.Context(), "default", name); err != nil {
					t.Error(err)
				}
				s.put(configMapOf(name, fmt.Sprint(i)))
				n.Unregister(pod.UID(uid))
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for len(s.watching()) > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(s.watching()) > 0 || len(n.objects) > 0 || len(n.pods) > 0 {
		t.Errorf("left over: %v, %v, %v", s.watching(), n.objects, n.pods)
	}
}

func TestNewAPIChecksItsConfiguration(t *testing.T) {
	if _, err := NewAPI(APIConfig{}); err == nil {
		t.Error("accepted")
	}
	if _, err := NewLocal(LocalConfig{}); err == nil {
		t.Error("accepted")
	}
}

func TestPlainObjectsAreAskedForEachTime(t *testing.T) {
	s := newServer(t)
	n := newNode(t, s)
	read := func() []error {
		_, one := n.PersistentVolumeClaim(t.Context(), "default", "c")
		_, two := n.PersistentVolume(t.Context(), "v")
		_, three := n.ServiceAccount(t.Context(), "default", "robot")
		return []error{one, two, three}
	}
	for _, err := range read() {
		if !apierrors.IsNotFound(err) {
			t.Errorf("have %v", err)
		}
	}
	s.put(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}})
	s.put(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}})
	s.put(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}})
	if err := errors.Join(read()...); err != nil {
		t.Error(err)
	}
}
