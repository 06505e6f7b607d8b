package objects

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"berth/internal/lib/pod"
)

// watched is a ConfigMap or Secret that registered pods refer to. API.mu guards it.
//
//	           read            immutable
//	reading ─────────▶ watched ─────────▶ at rest
//	   ▲                                     │ another pod refers to it: it may have
//	   └─────────────────────────────────────┘ been deleted and made again
type watched struct {
	ref
	pods map[pod.UID]bool
	stop context.CancelFunc // ends reading and watching; nil: it is at rest, or Run does not run

	synced  chan struct{} // closed when it was read, and when no pod refers to it any more
	object  object        // nil: it does not exist, or was not read yet
	failure error         // why it was not read yet, if anything went wrong
	missed  bool          // a getter gave up before it was read
}

// isSynced reports whether the object was read, or is not referred to any more.
func (w *watched) isSynced() bool { return isClosed(w.synced) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// addReference adds a pod to the references of an object, and begins to watch the object
// if it is the first. The lock is held.
func (a *API) addReference(uid pod.UID, to ref) {
	w := a.objects[to]
	switch {
	case w == nil:
		w = &watched{ref: to, pods: map[pod.UID]bool{}, synced: make(chan struct{})}
		a.objects[to] = w
		a.start(w)
	case w.stop == nil && w.isSynced():
		w.synced = make(chan struct{})
		a.start(w)
	}
	w.pods[uid] = true
}

// dropReference removes a pod from the references of an object, and ends the watch of the
// object after the last. The lock is held.
func (a *API) dropReference(uid pod.UID, to ref) {
	w := a.objects[to]
	delete(w.pods, uid)
	if len(w.pods) > 0 {
		return
	}
	delete(a.objects, to)
	w.end()
	if !w.isSynced() {
		close(w.synced)
	}
}

func (w *watched) end() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// start starts the goroutine that reads and watches an object. The lock is held.
func (a *API) start(w *watched) {
	if a.group == nil || w.stop != nil {
		return // Run will start it, or it runs
	}
	whole := a.group.Context()
	ctx, stop := context.WithCancel(whole)
	w.stop = stop
	a.group.Go("watch of "+w.String(), func(context.Context) {
		defer stop()
		a.follow(ctx, whole, w)
	})
}

// follow reads an object, and watches it until ctx ends. The first read is a GET: the
// list that a watch begins with can take the server a tenth of a second, and an immutable
// object needs no watch at all.
func (a *API) follow(ctx, whole context.Context, w *watched) {
	learn := func(o any) error { return a.receive(ctx, whole, w, o) }
	f := w.follower(a)
	f.failed = func(err error) { a.recordFailure(ctx, w, err) }
	f.sink = sink{
		put:  learn,
		drop: func(any) error { return learn(nil) },
		replace: func(list []any) error {
			if len(list) == 0 {
				return learn(nil)
			}
			return learn(list[0])
		},
	}
	var given any
	o, err := f.get(ctx, w.name)
	switch {
	case err == nil:
		given = o
	case apierrors.IsNotFound(err):
		err = nil
	}
	if f.recordResult(ctx, err) == nil {
		if err := learn(given); err != nil {
			a.recordFailure(ctx, w, err)
		}
	}
	f.run(ctx)
}

// follower returns the follower of one object, selected by its name, since a node may not
// read others.
func (r ref) follower(a *API) *follower {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, r.name).String()
	if r.kind == secret {
		return newFollower(a, r.String(), &v1.Secret{}, a.Client.CoreV1().Secrets(r.namespace), only)
	}
	return newFollower(a, r.String(), &v1.ConfigMap{}, a.Client.CoreV1().ConfigMaps(r.namespace), only)
}

// receive stores the new version of an object, nil if it does not exist, and enqueues the
// pods that refer to it. ctx is the context of this watch, whole that of all watches.
func (a *API) receive(ctx, whole context.Context, w *watched, given any) error {
	var now object
	if given != nil {
		var err error
		if now, err = lean(given); err != nil {
			return err
		}
		if now.GetName() != w.name {
			return fmt.Errorf("asked for %s, and got %s", w, now.GetName())
		}
	}
	a.enqueueAll(whole, a.setObject(ctx, w, now))
	return nil
}

// setObject stores the new version of an object, and returns the pods to be enqueued.
func (a *API) setObject(ctx context.Context, w *watched, now object) []pod.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil {
		return nil // this watch was replaced or ended
	}
	changed := w.missed
	if w.isSynced() || w.object != nil {
		changed = changed || !same(w.object, now)
	}
	w.object, w.failure, w.missed = now, nil, false
	if !w.isSynced() {
		close(w.synced)
	}
	if now != nil && immutable(now) {
		w.end()
	}
	if !changed {
		return nil
	}
	return sorted(w.pods)
}

// recordFailure records why an object could not be read. Its last version, if there is one,
// is used again.
func (a *API) recordFailure(ctx context.Context, w *watched, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	w.failure = err
	if w.object != nil && !w.isSynced() {
		close(w.synced)
	}
}

// read returns a ConfigMap or Secret. If its first read is under way, it waits.
func (a *API) read(ctx context.Context, r ref) (object, error) {
	a.mu.Lock()
	w := a.objects[r]
	var known chan struct{}
	if w != nil {
		known = w.synced
	}
	a.mu.Unlock()
	if w == nil {
		return a.readNow(ctx, r)
	}

	bound, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	select {
	case <-known:
	case <-bound.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case w.object != nil:
		return w.object, nil
	case len(w.pods) == 0:
		return nil, fmt.Errorf("read %s: no pod refers to it any more", r)
	case w.isSynced():
		return nil, r.notFound("")
	}
	w.missed = true
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait until %s is read: %w", r, errors.Join(context.Cause(ctx), w.failure))
	}
	if w.failure == nil {
		return nil, fmt.Errorf("%s was not read yet: the API server has not answered within %s", r, getTimeout)
	}
	return nil, fmt.Errorf("%s was not read yet, after %s: %w", r, getTimeout, w.failure)
}

// readNow reads an object that no registered pod refers to from the server.
func (a *API) readNow(ctx context.Context, r ref) (object, error) {
	given, err := r.follower(a).get(ctx, r.name)
	if err != nil {
		return nil, r.failed(err)
	}
	return lean(given)
}

// ConfigMap returns the current version of a ConfigMap. If it is being read for a pod that
// was just registered, ConfigMap waits.
func (a *API) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return typed[*v1.ConfigMap](a.read(ctx, ref{configMap, namespace, name}))
}

// Secret returns a Secret, as ConfigMap does.
func (a *API) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return typed[*v1.Secret](a.read(ctx, ref{secret, namespace, name}))
}

// typed converts an object to the type of its kind.
func typed[T object](o object, err error) (T, error) {
	t, ok := o.(T)
	if err == nil && !ok {
		err = fmt.Errorf("this is no %T, but a %T", t, o)
	}
	return t, err
}
