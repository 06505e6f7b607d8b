package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A cluster attaches volumes to this machine and detaches them. Before it detaches one
// it takes it off those that it shows as attached, and then reads which are in use. We
// do it the other way round: one is shown as in use first, and then it is read whether
// it is attached. So, whoever comes second sees what the other has done, and no volume
// is detached that is being mounted.

// Volumes are those that the cluster attaches to this machine.
type Volumes struct {
	InUse []v1.UniqueVolumeName // they must not be detached; sorted
	All   bool                  // there are no others: what else is shown is no longer true
}

// inUse is what is to be shown.
func (v Volumes) inUse(shown []v1.UniqueVolumeName) []v1.UniqueVolumeName {
	if v.All {
		return v.InUse
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(shown, v.InUse))))
}

// lacks tells whether something that is wanted is not there.
func lacks(have, want []v1.UniqueVolumeName) bool {
	return slices.ContainsFunc(want, func(v v1.UniqueVolumeName) bool { return !slices.Contains(have, v) })
}

// volumes is how far the server knows the volumes in use. Reporter.mu guards it.
type volumes struct {
	wanted, written int           // which word of ours is the last, and which the server has
	news            chan struct{} // closed and replaced when it has a later one
}

// SetVolumesInUse says which volumes must not be detached from this machine. The list is
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

// recordVolumesWritten notes that the server has what we told.
func (r *Reporter) recordVolumesWritten(told int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if told > r.volumes.written {
		r.volumes.written = told
		close(r.volumes.news)
		r.volumes.news = make(chan struct{})
	}
}

// showTimeout bounds how long somebody waits until the server has the list.
const showTimeout = 10 * time.Second

// Attached tells whether a volume is attached to this machine. It waits until the server
// has what SetVolumesInUse was told last: if the volume is in that, it stays attached.
func (r *Reporter) Attached(ctx context.Context, volume v1.UniqueVolumeName) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	for told := r.volumes.wanted; r.volumes.written < told; {
		news := r.volumes.news
		r.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if err := ctx.Err(); err != nil {
			return false, fmt.Errorf("tell the API server that the volume is in use: %w", err)
		}
	}
	return r.node != nil && slices.ContainsFunc(r.node.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == volume }), nil
}
