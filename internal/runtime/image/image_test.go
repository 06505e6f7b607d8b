package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// registry is a runtime whose pulls take ten seconds.
type registry struct {
	mu         sync.Mutex
	has        map[string]bool
	down       error
	unreadable error
	pulls      []string // those that were begun
	broken     int      // those that were broken off
	busy, most int
	user       string   // who may pull; empty: everybody
	shown      []string // who tried
}

func (r *registry) ImageRef(_ context.Context, image string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unreadable != nil || !r.has[image] {
		return "", r.unreadable
	}
	return "ref:" + image, nil
}

func (r *registry) PullImage(ctx context.Context, image string, show keyring.Credential) (string, error) {
	r.mu.Lock()
	r.shown = append(r.shown, show.Username)
	r.pulls = append(r.pulls, image)
	r.busy++
	r.most = max(r.most, r.busy)
	r.mu.Unlock()
	var err error
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	if err != nil {
		r.broken++
		return "", err
	}
	if r.down == nil && r.user != "" && show.Username != r.user {
		return "", errors.New("denied for " + show.Username)
	}
	r.has[image] = r.has[image] || r.down == nil
	return "ref:" + image, r.down
}

func (r *registry) set(change func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *registry) pulled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pulls)
}

// world is a manager over a registry, in a bubble of time.
type world struct {
	*Manager
	*registry
	t    *testing.T
	wake *wakes
	log  *strings.Builder
}

type wakes struct {
	mu   sync.Mutex
	pods []pod.UID
}

// take returns the pods that were enqueued since the last take, in order.
func (w *wakes) take() []pod.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.pods
	w.pods = nil
	slices.Sort(out)
	return out
}

func inWorld(t *testing.T, parallel int, test func(w *world), images ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, registry: &registry{has: map[string]bool{}}, wake: &wakes{}, log: &strings.Builder{}}
		for _, image := range images {
			w.has[image] = true
		}
		var err error
		w.Manager, err = New(t.Context(), Config{
			Runtime: w.registry, Log: slog.New(slog.NewTextHandler(w.log, nil)), Parallel: parallel,
			Enqueue: func(_ context.Context, uid pod.UID) {
				w.wake.mu.Lock()
				defer w.wake.mu.Unlock()
				w.wake.pods = append(w.wake.pods, uid)
			},
			Explain: func(err error) string { return "why: " + err.Error() },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		test(w)
	})
}

const app = "localhost/app:1"

func newPod(uid pod.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns"}}
}

// ask asks for the image app for container c of a pod.
func (w *world) ask(uid pod.UID, policy v1.PullPolicy) State { return w.askFor(uid, "c", app, policy) }

func (w *world) askFor(uid pod.UID, container, image string, policy v1.PullPolicy) State {
	synctest.Wait()
	return w.Ensure(w.t.Context(), newPod(uid), &v1.Container{Name: container, Image: image, ImagePullPolicy: policy})
}

func (w *world) expect(got State, reason string) {
	w.t.Helper()
	if got.Reason != reason || got.Ref != "" {
		w.t.Fatalf("got %+v, want %s", got, reason)
	}
}

func (w *world) expectPresent(got State) {
	w.t.Helper()
	if got != (State{Ref: "ref:" + app}) {
		w.t.Fatalf("got %+v, want it to be there", got)
	}
}

func (w *world) expectPulls(want int) {
	w.t.Helper()
	synctest.Wait()
	if got := w.pulled(); got != want {
		w.t.Fatalf("%d pulls, want %d", got, want)
	}
}

func (w *world) expectWoken(want ...pod.UID) {
	w.t.Helper()
	synctest.Wait()
	if got := w.wake.take(); !slices.Equal(got, want) {
		w.t.Fatalf("woke %v, want %v", got, want)
	}
}

// expectForgotten checks that the manager holds nothing once no pod waits.
func (w *world) expectForgotten() {
	w.t.Helper()
	w.Manager.mu.Lock()
	defer w.Manager.mu.Unlock()
	if len(w.images) != 0 {
		w.t.Fatalf("still remembered: %v", w.images)
	}
}

func TestAnImageThatIsThereIsNotPulled(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.expectPresent(w.ask("a", v1.PullIfNotPresent))
		w.expectPresent(w.ask("a", v1.PullNever))
		w.expectPulls(0)
		w.expectForgotten()
	}, app)
}

func TestAnImageThatIsMissingIsPulled(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.expect(w.ask("a", v1.PullIfNotPresent), pod.ReasonContainerCreating)
		w.expect(w.ask("a", v1.PullIfNotPresent), pod.ReasonContainerCreating)
		w.expectWoken()
		time.Sleep(10 * time.Second)
		w.expectWoken("a")
		w.expectPresent(w.ask("a", v1.PullIfNotPresent))
		w.expectPulls(1)
		w.expectForgotten()
	})
}

func TestTwentyPodsAskAndOnePullServesThem(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		var uids []pod.UID
		for i := range 20 {
			uids = append(uids, pod.UID(fmt.Sprintf("p%02d", i)))
			w.expect(w.ask(uids[i], v1.PullIfNotPresent), pod.ReasonContainerCreating)
		}
		time.Sleep(10 * time.Second)
		w.expectWoken(uids...)
		for _, uid := range uids {
			w.expectPresent(w.ask(uid, v1.PullIfNotPresent))
		}
		w.expectPulls(1)
		w.expectForgotten()
	})
}

func TestAFewPullsAtATime(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		for i := range 10 {
			w.askFor(pod.UID(fmt.Sprint(i)), "c", fmt.Sprintf("localhost/app:%d", i), v1.PullIfNotPresent)
		}
		time.Sleep(40 * time.Second)
		w.expectPulls(10)
		if w.most != 3 || len(w.wake.take()) != 10 {
			w.t.Fatalf("%d at a time, want 3", w.most)
		}
	})
}

func TestNeverMeansNever(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		got := w.ask("a", v1.PullNever)
		w.expect(got, pod.ReasonErrImageNeverPull)
		if got.Until.IsZero() || !strings.Contains(got.Message, app) {
			t.Errorf("got %+v", got)
		}
		w.expectPulls(0)
		w.set(func(r *registry) { r.has[app] = true })
		w.Recheck(w.t.Context())
		w.expectWoken("a")
		w.expectPresent(w.ask("a", v1.PullNever))
		w.expectForgotten()
	})
}

func TestAlwaysPullsForEachStartAndOnceForOne(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		for start := range 3 {
			w.expect(w.ask("a", v1.PullAlways), pod.ReasonContainerCreating)
			w.expect(w.ask("a", v1.PullAlways), pod.ReasonContainerCreating)
			time.Sleep(10 * time.Second)
			w.expectPresent(w.ask("a", v1.PullAlways))
			w.expectPulls(start + 1)
			w.expectForgotten()
		}
	}, app)
}

func TestAlwaysIsNotContentWithWhatIsThere(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.down = errors.New("no route")
		w.ask("a", v1.PullAlways)
		time.Sleep(10 * time.Second)
		w.expect(w.ask("a", v1.PullAlways), pod.ReasonErrImagePull)
		w.expectPresent(w.ask("b", v1.PullIfNotPresent))
	}, app)
}

// Two containers of a pod have the same image. The answer to one of them, or its failure, must not
// affect the other.
func TestTwoContainersOfOnePodDoNotGetInEachOthersWay(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		for range 3 { // first keeps failing to start, and asks again
			w.expect(w.askFor("a", "second", app, v1.PullAlways), pod.ReasonContainerCreating)
			w.expectPresent(w.askFor("a", "first", app, v1.PullIfNotPresent))
			time.Sleep(3 * time.Second)
		}
		time.Sleep(time.Second)
		w.expectWoken("a")
		w.expectPresent(w.askFor("a", "second", app, v1.PullAlways))
		w.expectPulls(1)

		// Both want it anew: the pull of one start serves both, and each takes its own.
		w.askFor("a", "first", app, v1.PullAlways)
		w.askFor("a", "second", app, v1.PullAlways)
		time.Sleep(10 * time.Second)
		w.expectPresent(w.askFor("a", "first", app, v1.PullAlways))
		w.expectPresent(w.askFor("a", "second", app, v1.PullAlways))
		w.expectPulls(2)
		w.expectForgotten()
	}, app)
}
