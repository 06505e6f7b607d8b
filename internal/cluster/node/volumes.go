package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The attach-detach controller attaches volumes to this machine and detaches them. Before it
// detaches a volume, it removes the volume from status.volumesAttached, and then reads
// status.volumesInUse. The agent does it the other way round: it writes volumesInUse first, and
// then reads volumesAttached. So the second of the two sees what the first has done, and no
// volume is detached that is being mounted.

// Volumes are the attachable volumes that this machine uses.
type Volumes struct {
	InUse []v1.UniqueVolumeName // must not be detached; sorted
	All   bool                  // InUse is complete: other volumes in the Node's list are out of date
}

// inUse returns the list that the Node should have in place of shown.
func (v Volumes) inUse(shown []v1.UniqueVolumeName) []v1.UniqueVolumeName {
	if v.All {
		return v.InUse
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(shown, v.InUse))))
}

// lacks reports whether have misses a volume of want.
func lacks(have, want []v1.UniqueVolumeName) bool {
	return slices.ContainsFunc(want, func(v v1.UniqueVolumeName) bool { return !slices.Contains(have, v) })
}

// volumes counts the lists of volumes in use, to find out whether the API server has the newest.
// Reporter.mu guards it.
type volumes struct {
	wanted, written int           // numbers of the newest list, and of the list that the API server has
	news            chan struct{} // closed and replaced when written grows
}

// SetVolumesInUse sets the volumes that must not be detached from this machine. The list is
// sorted; all says that nothing else is in use.
func (r *Reporter) SetVolumesInUse(inUse []v1.UniqueVolumeName, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	facts := r.facts
	facts.Volumes = Volumes{InUse: inUse, All: all}
	if !same(r.facts.Volumes, facts.Volumes) {
		r.volumes.wanted++
		r.setFacts(facts)
	}
}

// recordVolumesWritten records that the API server has the list of volumes with this number.
func (r *Reporter) recordVolumesWritten(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number > r.volumes.written {
		r.volumes.written = number
		close(r.volumes.news)
		r.volumes.news = make(chan struct{})
	}
}

// showTimeout bounds how long Attached waits until the API server has the list.
const showTimeout = 10 * time.Second

// Attached reports whether a volume is attached to this machine. It waits until the API server
// has the newest list of SetVolumesInUse: a volume in that list stays attached.
func (r *Reporter) Attached(ctx context.Context, volume v1.UniqueVolumeName) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	for newest := r.volumes.wanted; r.volumes.written < newest; {
		news := r.volumes.news
		r.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if err := ctx.Err(); err != nil {
			return false, fmt.Errorf("report to the API server that the volume is in use: %w", err)
		}
	}
	return r.node != nil && slices.ContainsFunc(r.node.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == volume }), nil
}
