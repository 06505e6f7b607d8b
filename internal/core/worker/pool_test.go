package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// recordingExecutor records its calls. A call that is held waits until unblock, or until its
// context ends.
type recordingExecutor struct {
	mu      sync.Mutex
	calls   []string
	running map[pod.UID]bool
	hold    map[string]chan struct{}
	fail    map[string]int
	outcome pod.Outcome
	causes  []pod.Cause // of the stops
}

func (h *recordingExecutor) record(ctx context.Context, what string, p *v1.Pod) error {
	key := what + " " + string(p.UID)
	h.mu.Lock()
	h.calls = append(h.calls, key)
	held := h.hold[key]
	failing := h.fail[key] > 0
	if failing {
		h.fail[key]--
	}
	h.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if failing {
		return errors.New("it does not work")
	}
	return nil
}

func (h *recordingExecutor) Sync(ctx context.Context, p *v1.Pod, _ pod.Observed) (pod.Outcome, error) {
	err := h.record(ctx, "sync", p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.running[p.UID] = true
	}
	return h.outcome, err
}

func (h *recordingExecutor) Stop(ctx context.Context, p *v1.Pod, _ pod.Observed, grace time.Duration, cause pod.Cause) (bool, error) {
	h.mu.Lock()
	if !h.running[p.UID] {
		h.mu.Unlock()
		return true, nil
	}
	h.mu.Unlock()
	h.mu.Lock()
	h.causes = append(h.causes, cause)
	h.mu.Unlock()
	if err := h.record(ctx, "stop in "+grace.String(), p); err != nil {
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, p.UID)
	return false, nil
}

func (h *recordingExecutor) Release(ctx context.Context, p *v1.Pod, _ pod.Observed) error {
	return h.record(ctx, "release", p)
}

func (h *recordingExecutor) Cleanup(ctx context.Context, p *v1.Pod, _ pod.Observed) error {
	return h.record(ctx, "erase", p)
}

func (h *recordingExecutor) unblock(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.hold[key])
	delete(h.hold, key)
}

func (h *recordingExecutor) recorded() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

type emptyObserver struct{}

func (emptyObserver) Get(_ context.Context, uid pod.UID, _ time.Time) (pod.Observed, error) {
	return pod.Observed{UID: uid, At: time.Now()}, nil
}

// withPool is a pool in a bubble of its own, with a due queue that is plain timers.
func withPool(t *testing.T, test func(t *testing.T, p *Pool, h *recordingExecutor)) {
	synctest.Test(t, func(t *testing.T) {
		h := &recordingExecutor{running: map[pod.UID]bool{}, hold: map[string]chan struct{}{}, fail: map[string]int{}}
		var pool *Pool
		pool, err := New(t.Context(), Config{
			Executor: h, Observer: emptyObserver{}, Log: slog.New(slog.DiscardHandler),
			EnqueueAt: func(uid pod.UID, at time.Time) { time.AfterFunc(time.Until(at), func() { pool.Enqueue(uid) }) },
			PodGone:   func(context.Context, pod.UID) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Stop()
		test(t, pool, h)
	})
}

func named(uid pod.UID, source string) *v1.Pod {
	p := podWithGrace(30)
	p.UID = uid
	p.Annotations = map[string]string{pod.AnnotationSource: source}
	return p
}

func expect(t *testing.T, h *recordingExecutor, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := h.recorded(); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestAPodIsSyncedStoppedAndErased(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		p.Desire(named("a", pod.SourceAPI))
		expect(t, h, "sync a")
		p.Remove(named("a", pod.SourceAPI))
		expect(t, h, "sync a", "stop in 30s a", "erase a")
		if lives := p.Lives(); len(lives) != 0 {
			t.Fatalf("still there: %v", lives)
		}
	})
}

func TestAPodThatIsDeletedAfterItsEndIsReleased(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		p.Desire(named("a", pod.SourceAPI))
		synctest.Wait()
		p.End("a", nil, asked)
		expect(t, h, "sync a", "stop in 30s a")
		gone := named("a", pod.SourceAPI)
		gone.DeletionTimestamp = &metav1.Time{}
		p.Desire(gone)
		expect(t, h, "sync a", "stop in 30s a", "release a")
		p.Remove(gone)
		expect(t, h, "sync a", "stop in 30s a", "release a", "erase a")
	})
}

func TestManyLooksWhileBusyAreOne(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.hold["sync a"] = make(chan struct{})
		p.Desire(named("a", pod.SourceAPI))
		expect(t, h, "sync a")
		for range 100 {
			p.Enqueue("a")
		}
		h.unblock("sync a")
		expect(t, h, "sync a", "sync a")
	})
}

func TestAKillInterruptsASyncAndIsNotOverwritten(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.hold["sync a"] = make(chan struct{})
		p.Desire(named("a", pod.SourceAPI))
		expect(t, h, "sync a")
		h.mu.Lock()
		h.running["a"] = true
		h.mu.Unlock()
		p.End("a", nil, asked)
		p.Desire(named("a", pod.SourceAPI)) // a newer version does not undo it
		expect(t, h, "sync a", "stop in 30s a")
		if l := p.Lives()["a"]; l.Phase != Terminated {
			t.Fatalf("phase %s, want Terminated", l.Phase)
		}
		p.Desire(named("a", pod.SourceAPI))
		p.Enqueue("a")
		expect(t, h, "sync a", "stop in 30s a") // a finished UID never runs again
	})
}

func TestAShorterGraceCutsAStopShort(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		p.Desire(named("a", pod.SourceAPI))
		synctest.Wait()
		h.hold["stop in 30s a"] = make(chan struct{})
		p.End("a", nil, pod.Cause{Description: "slowly"})
		expect(t, h, "sync a", "stop in 30s a")
		time.Sleep(10 * time.Second)
		grace := int64(12)
		p.End("a", &grace, pod.Cause{Description: "quickly"})
		expect(t, h, "sync a", "stop in 30s a", "stop in 2s a") // ten of the twelve seconds are over
	})
}

func TestFailuresAreRetriedWithGrowingPauses(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.fail["sync a"] = 3
		start := time.Now()
		p.Desire(named("a", pod.SourceAPI))
		for len(h.recorded()) < 4 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(start); took != 3500*time.Millisecond { // 0.5 + 1 + 2
			t.Fatalf("the fourth try came after %s", took)
		}
		time.Sleep(time.Hour)
		expect(t, h, "sync a", "sync a", "sync a", "sync a")
	})
}

func TestAPodThatAlwaysHasSomethingToDoDoesNotSpin(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.outcome = pod.Outcome{Again: true}
		p.Desire(named("a", pod.SourceAPI))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls := len(h.recorded()); calls < 20 || calls > 50 {
			t.Fatalf("%d syncs in ten seconds", calls)
		}
	})
}

func TestADueTimeCountsAlsoIfTheStepFailed(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.fail["sync a"] = 1000
		h.outcome = pod.Outcome{Due: time.Now().Add(20 * time.Second)}
		p.Desire(named("a", pod.SourceAPI))
		time.Sleep(19 * time.Second) // retries alone come after 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 seconds
		synctest.Wait()
		before := len(h.recorded())
		time.Sleep(time.Second)
		synctest.Wait()
		if after := len(h.recorded()); before != 6 || after == before {
			t.Fatalf("%d syncs before the time that was asked for, %d after it", before, after)
		}
	})
}

func TestAStaticPodWaitsForItsPredecessor(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		old, edited := named("old", pod.SourceFile), named("new", pod.SourceFile)
		p.Desire(old)
		synctest.Wait()
		h.hold["stop in 30s old"] = make(chan struct{})
		p.Remove(old)
		p.Desire(edited)
		expect(t, h, "sync old", "stop in 30s old")
		h.unblock("stop in 30s old")
		expect(t, h, "sync old", "stop in 30s old", "erase old", "sync new")
	})
}

func TestAQueuedPodThatIsRemovedNeverStarts(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		old, edited := named("old", pod.SourceFile), named("new", pod.SourceFile)
		p.Desire(old)
		synctest.Wait()
		h.hold["stop in 30s old"] = make(chan struct{})
		p.Remove(old)
		p.Desire(edited)
		p.Remove(edited)
		p.Desire(old) // the edit was taken back
		synctest.Wait()
		h.unblock("stop in 30s old")
		expect(t, h, "sync old", "stop in 30s old", "erase old", "sync old")
	})
}

func TestAnOrphanIsStoppedAndErasedFromRuntimeDataAlone(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.running["lost"] = true
		p.Orphan(pod.Observed{UID: "lost", Name: "web", Namespace: "default", Containers: []pod.Container{{Grace: 7}, {Grace: 3}}})
		expect(t, h, "stop in 7s lost", "erase lost")
	})
}

func TestAFinishedPodIsStoppedAndStays(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		h.outcome = pod.Outcome{Finished: true}
		p.Desire(named("job", pod.SourceAPI))
		expect(t, h, "sync job", "stop in 30s job")
		if l := p.Lives()["job"]; l.Phase != Terminated || l.Removed {
			t.Fatalf("got %+v, want it Terminated and there", l)
		}
	})
}

func TestTheFirstCauseIsThatOfTheStop(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		p.Desire(named("a", pod.SourceAPI))
		synctest.Wait()
		h.hold["stop in 30s a"] = make(chan struct{})
		p.End("a", nil, shutdown)
		synctest.Wait()
		p.End("a", new(int64), asked)
		expect(t, h, "sync a", "stop in 30s a", "stop in 0s a")
		if !slices.Equal(h.causes, []pod.Cause{shutdown, shutdown}) {
			t.Fatalf("got %+v", h.causes)
		}
		if l := p.Lives()["a"]; l.Cause != shutdown {
			t.Fatalf("got %+v", l)
		}
	})
}

// isClosed reports whether a channel of which nothing is ever received is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheEndOfAPodCanBeWaitedFor(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		if !isClosed(p.Ended("nobody")) {
			t.Fatal("nothing runs of a pod that nobody has")
		}
		p.Desire(named("a", pod.SourceAPI))
		synctest.Wait()
		h.hold["stop in 30s a"] = make(chan struct{})
		p.End("a", nil, shutdown)
		ended := p.Ended("a")
		synctest.Wait()
		if isClosed(ended) || len(p.Active()) != 1 {
			t.Fatal("it still runs")
		}
		h.unblock("stop in 30s a")
		<-ended
		if len(p.Active()) != 0 || !isClosed(p.Ended("a")) {
			t.Fatal("it has ended")
		}
	})
}

func TestARevivedPodIsSyncedAndCanBeStoppedAgain(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, h *recordingExecutor) {
		p.Desire(named("a", pod.SourceFile))
		synctest.Wait()
		h.hold["stop in 30s a"] = make(chan struct{})
		p.End("a", nil, shutdown)
		synctest.Wait()
		first := p.Ended("a")
		p.Revive("a")
		time.Sleep(10 * time.Second)
		expect(t, h, "sync a", "stop in 30s a") // not before it is stopped
		h.unblock("stop in 30s a")
		expect(t, h, "sync a", "stop in 30s a", "sync a")
		if !isClosed(first) || isClosed(p.Ended("a")) {
			t.Fatal("each life has an end of its own")
		}
		p.End("a", nil, shutdown)
		expect(t, h, "sync a", "stop in 30s a", "sync a", "stop in 30s a") // all of its grace, anew
		p.Revive("a")
		expect(t, h, "sync a", "stop in 30s a", "sync a", "stop in 30s a", "sync a")
		p.Remove(named("a", pod.SourceFile))
		expect(t, h, "sync a", "stop in 30s a", "sync a", "stop in 30s a", "sync a", "stop in 30s a", "erase a")
	})
}

// silentObserver fails as long as it is silent.
type silentObserver struct{ silent *atomic.Bool }

func (o silentObserver) Get(ctx context.Context, uid pod.UID, since time.Time) (pod.Observed, error) {
	if o.silent.Load() {
		return pod.Observed{}, errors.New("no answer")
	}
	return emptyObserver{}.Get(ctx, uid, since)
}

func TestAPodThatCantBeReadIsReportedOnceInARow(t *testing.T) {
	withPool(t, func(t *testing.T, p *Pool, _ *recordingExecutor) {
		var silent atomic.Bool
		var reported atomic.Int32
		p.Observer = silentObserver{&silent}
		p.Unobserved = func(*v1.Pod, error) { reported.Add(1) }
		silent.Store(true)
		p.Desire(named("a", pod.SourceFile))
		time.Sleep(100 * time.Millisecond)
		if reported.Load() != 0 {
			t.Error("the first failure was reported")
		}
		time.Sleep(10 * time.Minute)
		if got := reported.Load(); got != 1 {
			t.Errorf("reported %d times, want 1", got)
		}
		silent.Store(false)
		time.Sleep(time.Minute)
	})
}
