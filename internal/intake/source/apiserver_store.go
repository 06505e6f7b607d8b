package source

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// podStore is where the reflector puts the pods. It is never slow: changes only
// leave a mark, and whoever reads gets all that is there by then.
//
// Nothing is lost by that but what lies between two looks, and one such thing matters:
// a pod that is deleted by force is given its short grace and removed in one go. So it
// stays among the pods, as it was at its end, until the reader had it once.
type podStore struct {
	changed chan struct{} // capacity 1: there is something new to read

	mu            sync.Mutex
	listed        bool // all pods were there once; before that, nothing is told
	pods          map[string]*v1.Pod
	unreadDeleted map[pod.UID]*v1.Pod // the server has them no more, and the reader is to see them once
	lastRead      []*v1.Pod           // what the reader had last
}

func newPodStore() *podStore {
	return &podStore{changed: make(chan struct{}, 1), pods: map[string]*v1.Pod{}, unreadDeleted: map[pod.UID]*v1.Pod{}}
}

// markRead says that the reader has pods, and tells whether there is more to read because
// some of them are gone.
func (g *podStore) markRead(pods []*v1.Pod) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lastRead = pods
	before := len(g.unreadDeleted)
	for _, p := range pods {
		if last := g.unreadDeleted[p.UID]; last != nil && pod.Grace(p) <= pod.Grace(last) {
			delete(g.unreadDeleted, p.UID)
		}
	}
	if len(g.unreadDeleted) == before {
		return false
	}
	g.signalChange()
	return true
}

// keepUntilRead keeps a pod that is gone if the reader does not know how soon it has to stop.
// The caller holds the lock.
func (g *podStore) keepUntilRead(p *v1.Pod) {
	i := slices.IndexFunc(g.lastRead, func(known *v1.Pod) bool { return known.UID == p.UID })
	if i >= 0 && p.DeletionTimestamp != nil && pod.Grace(p) < pod.Grace(g.lastRead[i]) {
		g.unreadDeleted[p.UID] = p
	}
}

// all returns the pods by namespace and name. Who comes under the name of one that is
// leaving comes after it.
func (g *podStore) all() []*v1.Pod {
	g.mu.Lock()
	pods := make([]*v1.Pod, 0, len(g.pods)+len(g.unreadDeleted))
	taken := map[string]bool{}
	for _, p := range g.unreadDeleted {
		pods = append(pods, p)
		taken[pod.Ref(p)] = true
	}
	for ref, p := range g.pods {
		if !taken[ref] {
			pods = append(pods, p)
		}
	}
	g.mu.Unlock()
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// signalChange marks that something changed. The caller holds the lock.
func (g *podStore) signalChange() {
	if !g.listed {
		return
	}
	select {
	case g.changed <- struct{}{}:
	default: // the mark is there
	}
}

// lean returns a pod as it is kept. Who manages which field is of no use to a
// node, and often half of the object. The given object belongs to the client and
// is left as it is.
func lean(object any) (*v1.Pod, error) {
	given, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("gather pods: this is none, but a %T", object)
	}
	p := *given
	p.ManagedFields = nil
	return &p, nil
}

// Add is called by the reflector.
func (g *podStore) Add(object any) error { return g.Update(object) }

// Update is called by the reflector.
func (g *podStore) Update(object any) error {
	p, err := lean(object)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pods[pod.Ref(p)] = p
	g.signalChange()
	return nil
}

// Delete is called by the reflector.
func (g *podStore) Delete(object any) error {
	p, err := lean(object)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pods, pod.Ref(p))
	g.keepUntilRead(p)
	g.signalChange()
	return nil
}

// Replace is called by the reflector with a complete list. Pods that did not
// change stay the objects that they were, so a list that brings no news costs
// nobody anything.
func (g *podStore) Replace(list []any, _ string) error {
	next := make(map[string]*v1.Pod, len(list))
	g.mu.Lock()
	defer g.mu.Unlock()
	news := !g.listed || len(list) != len(g.pods)
	for _, object := range list {
		p, err := lean(object)
		if err != nil {
			return err
		}
		if was := g.pods[pod.Ref(p)]; was != nil && was.UID == p.UID && was.ResourceVersion == p.ResourceVersion && p.ResourceVersion != "" {
			p = was
		} else {
			news = true
		}
		next[pod.Ref(p)] = p
	}
	g.pods, g.listed = next, true
	if news {
		g.signalChange()
	}
	return nil
}

// Resync is called by the reflector. There is nothing to do: nobody lags behind.
func (g *podStore) Resync() error { return nil }
