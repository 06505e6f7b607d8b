package source

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// podStore is the cache.Store of the reflector: the pods of this node by name. It never
// blocks: a change only sends a signal, and the reader gets all pods of that moment.
//
// States between two reads are lost, and one of them matters: a pod that is deleted by
// force gets its short grace period and is removed in one go. So it stays among the
// pods, in its last version, until it was read once.
type podStore struct {
	changed chan struct{} // capacity 1: the store differs from the last read

	mu            sync.Mutex
	listed        bool // a first list is complete; before that, changed gets no value
	pods          map[string]*v1.Pod
	unreadDeleted map[pod.UID]*v1.Pod // deleted on the server, and to be read once more
	lastRead      []*v1.Pod           // the pods of the last snapshot that was received
}

func newPodStore() *podStore {
	return &podStore{changed: make(chan struct{}, 1), pods: map[string]*v1.Pod{}, unreadDeleted: map[pod.UID]*v1.Pod{}}
}

// markRead records that a snapshot of pods was received. It returns true if the snapshot
// held deleted pods, which are dropped now, so that there is a change to read.
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

// keepUntilRead keeps a deleted pod if its last read version had a longer grace period.
// The caller holds the lock.
func (g *podStore) keepUntilRead(p *v1.Pod) {
	i := slices.IndexFunc(g.lastRead, func(known *v1.Pod) bool { return known.UID == p.UID })
	if i >= 0 && p.DeletionTimestamp != nil && pod.Grace(p) < pod.Grace(g.lastRead[i]) {
		g.unreadDeleted[p.UID] = p
	}
}

// all returns the pods sorted by namespace and name. A new pod with the name of an
// unread deleted one is left out until the deleted one was read.
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

// signalChange signals the reader that the store changed. The caller holds the lock.
func (g *podStore) signalChange() {
	if !g.listed {
		return
	}
	select {
	case g.changed <- struct{}{}:
	default: // a signal is pending
	}
}

// lean returns a copy of a pod without its managedFields, which a node does not need
// and which are often half of the object. The given object belongs to the client and
// is not changed.
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
// change stay the objects that they were, so a list without changes sends no signal.
func (g *podStore) Replace(list []any, _ string) error {
	next := make(map[string]*v1.Pod, len(list))
	g.mu.Lock()
	defer g.mu.Unlock()
	different := !g.listed || len(list) != len(g.pods)
	for _, object := range list {
		p, err := lean(object)
		if err != nil {
			return err
		}
		if was := g.pods[pod.Ref(p)]; was != nil && was.UID == p.UID && was.ResourceVersion == p.ResourceVersion && p.ResourceVersion != "" {
			p = was
		} else {
			different = true
		}
		next[pod.Ref(p)] = p
	}
	g.pods, g.listed = next, true
	if different {
		g.signalChange()
	}
	return nil
}

// Resync is called by the reflector. There is nothing to do.
func (g *podStore) Resync() error { return nil }
