package agent

import (
	"context"
	"maps"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// leftovers are the pods that housekeeping found in the runtime and on the disk.
type leftovers struct {
	pods map[pod.UID]*pod.Observed
	err  error
}

// housekeep starts a search for orphans. There is none before every source has sent a snapshot and
// the runtime was listed: until then an orphan can't be distinguished from a desired pod. The search takes
// time, so it runs beside the loop, one at a time.
func (a *Agent) housekeep(group *run.Group) {
	if a.sweeping || a.heldAtStart == nil || !a.allReady() {
		return
	}
	a.sweeping, a.swept = true, time.Now()
	group.Go("housekeeping", func(ctx context.Context) {
		pods, err := a.listLeftovers(ctx)
		send(ctx, a.leftoversFound, leftovers{pods, err})
	})
}

// minSweepInterval is the least time between two searches that events ask for.
const minSweepInterval = time.Second

// housekeepSoon starts a search after an event of a pod that has no worker. Most such events are
// late: the pod is gone. A search goes through all pods, so there is one for all events of a
// minSweepInterval.
func (a *Agent) housekeepSoon(group *run.Group) {
	if a.sweepDue != nil {
		return
	}
	switch wait := time.Until(a.swept.Add(minSweepInterval)); {
	case wait > 0:
		a.sweepDue = time.After(wait)
	case a.sweeping: // it may have listed that pod already
		a.sweepDue = time.After(minSweepInterval)
	default:
		a.housekeep(group)
	}
}

func (a *Agent) listLeftovers(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	pods, err := a.OnDisk()
	if err != nil {
		return nil, err
	}
	inRuntime, err := a.InRuntime(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(pods, inRuntime) // the runtime knows more
	return pods, nil
}

// handleLeftovers hands each orphan, or what is left of it, to a worker that ends it.
func (a *Agent) handleLeftovers(l leftovers) {
	a.sweeping = false
	if l.err != nil {
		a.Log.Debug("housekeeping failed; next time", "err", l.err)
		return
	}
	a.reconcileMirrors()
	lives := a.workers.Lives()
	orphans, failed := map[pod.UID]bool{}, 0
	for uid, o := range l.pods {
		_, wanted := a.Desired.Get(uid)
		_, alive := lives[uid]
		if a.orphans[uid] && !wanted {
			orphans[uid] = true
			failed++
		}
		if !wanted && !alive && !a.keepUnreadable(o) {
			a.Log.Info("found a pod that no source has; ending it", "pod", o.Namespace+"/"+o.Name, "uid", uid, "runs", o.Running())
			if len(o.Sandboxes)+len(o.Containers) > 0 {
				a.Metrics.Orphaned()
			}
			orphans[uid] = true
			a.workers.Orphan(*o)
			a.recordDeparture(uid)
			a.view.update(uid)
		}
	}
	a.orphans = orphans
	a.Metrics.OrphansCleaned(len(orphans), failed)
	a.forgetReleased(l.pods)
	a.updateViewUnreadable()
}
