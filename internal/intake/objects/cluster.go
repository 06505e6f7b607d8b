package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// collection holds all objects of one kind that the cluster has.
type collection[T object] struct {
	lean func(T) T
	same func(a, b T) bool // reports whether a change matters; nil: no change does

	synced chan struct{} // closed when all of them were read for the first time

	mu     sync.Mutex
	missed bool                    // a getter did not want to wait for that
	items  map[string]map[string]T // by namespace and name
}

func newCollection[T object](lean func(T) T, same func(a, b T) bool) *collection[T] {
	return &collection[T]{lean: lean, same: same, synced: make(chan struct{}), items: map[string]map[string]T{}}
}

// sink returns the sink of a follower. It calls changed with the name of each object that
// changed.
func (c *collection[T]) sink(changed func(name string)) sink {
	callChanged := func(names []string) {
		for _, name := range names {
			changed(name)
		}
	}
	return sink{
		put: func(given any) error {
			o, err := cast[T](given)
			if err == nil {
				callChanged(c.put(o))
			}
			return err
		},
		drop: func(given any) error {
			o, err := cast[T](given)
			if err == nil {
				callChanged(c.drop(o))
			}
			return err
		},
		replace: func(given []any) error {
			list := make([]T, 0, len(given))
			for _, g := range given {
				o, err := cast[T](g)
				if err != nil {
					return err
				}
				list = append(list, o)
			}
			callChanged(c.replace(list))
			return nil
		},
	}
}

func cast[T object](given any) (T, error) {
	o, ok := given.(T)
	if !ok {
		return o, fmt.Errorf("keep what the cluster has: this is no %T, but a %T", o, given)
	}
	return o, nil
}

func (c *collection[T]) put(o T) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, there := c.items[o.GetNamespace()][o.GetName()]
	store(c.items, c.lean(o))
	if c.same == nil || there && c.same(was, o) {
		return nil
	}
	return []string{o.GetName()}
}

func (c *collection[T]) drop(o T) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.items[o.GetNamespace()], o.GetName()); len(c.items[o.GetNamespace()]) == 0 {
		delete(c.items, o.GetNamespace())
	}
	if c.same == nil {
		return nil
	}
	return []string{o.GetName()}
}

func (c *collection[T]) replace(list []T) []string {
	next := map[string]map[string]T{}
	for _, o := range list {
		store(next, c.lean(o))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was, first := c.items, !isClosed(c.synced)
	c.items = next
	if first {
		close(c.synced)
	}
	if c.same == nil || first && !c.missed {
		return nil // the getters wait for this first list
	}
	return differing(was, next, c.same)
}

// differing returns the names of objects that are in one of two maps only, or differ.
func differing[T object](a, b map[string]map[string]T, same func(a, b T) bool) []string {
	var out []string
	for namespace, items := range a {
		for name, o := range items {
			if other, there := b[namespace][name]; !there || !same(o, other) {
				out = append(out, name)
			}
		}
	}
	for namespace, items := range b {
		for name := range items {
			if _, there := a[namespace][name]; !there {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func store[T object](in map[string]map[string]T, o T) {
	if in[o.GetNamespace()] == nil {
		in[o.GetNamespace()] = map[string]T{}
	}
	in[o.GetNamespace()][o.GetName()] = o
}

// wait returns when the first list was read, or fails after getTimeout.
func (c *collection[T]) wait(ctx context.Context, what string) error {
	bound, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	select {
	case <-c.synced:
		return nil
	case <-bound.Done():
	}
	if !c.recordMiss() {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait until the %s of the cluster are read: %w", what, context.Cause(ctx))
	}
	return fmt.Errorf("the %s of the cluster were not read yet: the API server has not sent them within %s", what, getTimeout)
}

// recordMiss returns true if the first list was not read yet. Then all objects of that list
// count as changed, so that the pods are enqueued.
func (c *collection[T]) recordMiss() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.synced) {
		return false
	}
	c.missed = true
	return true
}

func (c *collection[T]) get(namespace, name string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.items[namespace][name]
	return o, ok
}

func (c *collection[T]) in(namespace string) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]T, 0, len(c.items[namespace])+1)
	for _, o := range c.items[namespace] {
		out = append(out, o)
	}
	return out
}

func (a *API) followClasses(ctx context.Context) {
	f := newFollower(a, "runtime classes", &nodev1.RuntimeClass{}, a.Client.NodeV1().RuntimeClasses(), "")
	f.sink = a.classes.sink(func(name string) { a.enqueueAll(ctx, a.ofClass(name)) })
	f.run(ctx)
}

// ofClass returns the registered pods of a RuntimeClass.
func (a *API) ofClass(name string) []pod.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	uids := map[pod.UID]bool{}
	for uid, r := range a.pods {
		if r.class == name {
			uids[uid] = true
		}
	}
	return sorted(uids)
}

// RuntimeClass returns a RuntimeClass. If the watch has not brought it yet, it is read from
// the server: it may be as new as the pod.
func (a *API) RuntimeClass(ctx context.Context, name string) (*nodev1.RuntimeClass, error) {
	if err := a.classes.wait(ctx, "runtime classes"); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", runtimeClass, name, err)
	}
	if c, ok := a.classes.get("", name); ok {
		return c, nil
	}
	c, err := get(ctx, a.Client.NodeV1().RuntimeClasses(), name)
	if err != nil {
		return nil, ref{kind: runtimeClass, name: name}.failed(err)
	}
	return leanClass(c), nil
}

func (a *API) followServices(ctx context.Context) {
	f := newFollower(a, "services", &v1.Service{}, a.Client.CoreV1().Services(metav1.NamespaceAll), "")
	f.sink = a.services.sink(func(string) {})
	f.run(ctx)
}

// Services returns the Services whose variables containers of a namespace get, by name: the
// Services of the namespace, and the Service of the API server, unless the namespace has one of
// the same name.
//
// They have only the fields that variables need.
func (a *API) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	if err := a.services.wait(ctx, "services"); err != nil {
		return nil, err
	}
	out := a.services.in(namespace)
	const api = "kubernetes"
	if !slices.ContainsFunc(out, func(s *v1.Service) bool { return s.Name == api }) {
		if s, ok := a.services.get(metav1.NamespaceDefault, api); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
