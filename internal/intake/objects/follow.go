package objects

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
)

// refusedPause is the pause after a watch that the API server refused. First is short: a server may
// send a pod a moment before it lets the node read the objects that the pod refers to.
var refusedPause = backoff.Exponential{First: 50 * time.Millisecond, Max: 10 * time.Second}

const (
	// minWatch is how long a watch must have lasted to count as a success.
	minWatch = time.Minute

	// listTimeout ends a list that a server accepted and never answers.
	listTimeout = time.Minute
)

// follower lists and watches objects, and puts them into a sink.
//
// client-go's reflector does one round: it lists, watches, resumes a watch where it was
// lost, and ends when the server no longer knows that resource version or does not answer.
// The follower decides when the next round begins.
type follower struct {
	resource string // for people to read
	client   Client
	outage   *outage
	log      *slog.Logger
	example  runtime.Object
	get      func(ctx context.Context, name string) (object, error)
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)

	sink   sink
	failed func(error) // called with every failure; may be nil

	mu      sync.Mutex
	refused time.Time // when the first watch of a row was refused; zero: the last one was not
	streak  logonce.Streak
}

// reader is the part of a client that reads objects of one kind. L is a list of them.
type reader[T object, L runtime.Object] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// newFollower returns a follower of the objects that a field selector selects; empty: of
// all. Its sink has to be set before it runs.
func newFollower[T object, L runtime.Object](a *API, what string, example T, c reader[T, L], selector string) *follower {
	return &follower{
		resource: what, client: a.Client, outage: a.outage, log: a.Log, example: example,
		get: func(ctx context.Context, name string) (object, error) { return get(ctx, c, name) },
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return c.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return c.Watch(ctx, o)
		},
	}
}

// get reads one object from the server, within getTimeout.
func get[T object, L runtime.Object](ctx context.Context, c reader[T, L], name string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	return c.Get(ctx, name, metav1.GetOptions{})
}

// sink is the cache.Store of a reflector.
type sink struct {
	put     func(any) error
	drop    func(any) error
	replace func([]any) error
}

func (s sink) Add(o any) error                    { return s.put(o) }
func (s sink) Update(o any) error                 { return s.put(o) }
func (s sink) Delete(o any) error                 { return s.drop(o) }
func (s sink) Replace(list []any, _ string) error { return s.replace(list) }
func (s sink) Resync() error                      { return nil }

// awayError is a failure for which isAway holds. It hides its cause, because the
// reflector would try again by itself on some causes, without regard to the others.
type awayError struct{ text string }

func (e awayError) Error() string { return e.text }

// run follows until the context ends.
func (f *follower) run(ctx context.Context) {
	reflector := cache.NewReflectorWithOptions(f.listWatch(), f.example, f.sink, cache.ReflectorOptions{
		Name:    f.resource,
		Backoff: &wait.Backoff{Duration: awayPause.First, Factor: 2, Jitter: 1, Cap: awayPause.Max / 2, Steps: 8},
	})
	// The reflector would log every failure, and watch events that it does not understand.
	quiet := klog.NewContext(ctx, klog.Logger{})
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(quiet)
		if _, away := errors.AsType[awayError](err); away {
			failures = 0
			f.outage.awaitTurn(ctx)
			continue
		}
		if time.Since(began) >= minWatch {
			failures = 0
		}
		failures++
		_ = run.Sleep(ctx, refusedPause.Jittered(failures))
	}
}

func (f *follower) listWatch() cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			timed, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // any version may be older than what was read before
			}
			list, err := f.list(timed, o)
			return list, f.recordResult(ctx, err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := f.watch(ctx, o)
			return w, f.recordResult(ctx, err)
		},
	}, f.client)
}

// recordResult records the result of a request, logs a watch that is refused for long, and
// returns the error for the reflector.
func (f *follower) recordResult(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // the follower was stopped
	}
	f.outage.recordResult(err)
	if err != nil && f.failed != nil {
		f.failed(err)
	}
	if isAway(err) {
		return awayError{err.Error()}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		if f.streak.Recovered() {
			f.log.Info("the API server lets this node watch again", "resource", f.resource)
		}
		f.refused = time.Time{}
		return nil
	}
	if f.refused.IsZero() {
		f.refused = time.Now()
	}
	if now := time.Now(); now.Sub(f.refused) >= logAfter && f.streak.Failed(now) {
		f.log.Warn("the API server does not let this node watch; trying again, rarely", "resource", f.resource, "err", err)
	}
	return err
}
