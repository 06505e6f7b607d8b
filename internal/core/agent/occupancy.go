package agent

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/core/status"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
)

// occupancy is the room that pods of the desired set need, added up, so that to admit a
// pod costs the same however many others there are.
//
// Invariant: every pod that has to have room, now or once preempted pods have ended, is counted.
// Others may be counted, too: a pod that is not admitted yet, or an ended pod whose status does
// not say so yet. So a pod that fits beside the counted pods may run. A pod that does not is
// compared with each of the others (see tenants).
type occupancy struct {
	desired *desired.Set
	counted admit.Occupancy // only the loop

	mu      sync.Mutex
	changed map[pod.UID]struct{} // pods whose version, state or status changed since they were counted
}

func newOccupancy(d *desired.Set, s *status.Store) *occupancy {
	o := &occupancy{desired: d, changed: map[pod.UID]struct{}{}}
	d.Subscribe(o.mark)
	s.Subscribe(o.mark)
	return o
}

// mark has a pod counted anew by the next update.
func (o *occupancy) mark(uid pod.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed[uid] = struct{}{}
}

// update counts the marked pods anew, if they need room.
func (o *occupancy) update(needsRoom func(*v1.Pod) bool) {
	for uid := range o.drainChanged() {
		if p, wanted := o.desired.Get(uid); wanted && needsRoom(p) {
			o.counted.Put(p)
		} else {
			o.counted.Remove(uid)
		}
	}
}

func (o *occupancy) drainChanged() map[pod.UID]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := o.changed
	o.changed = map[pod.UID]struct{}{}
	return changed
}
