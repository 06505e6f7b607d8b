package agent

import (
	"context"
	"sync"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/lib/queue"
)

// dueQueue holds the pods that are to be synced at a given time. There is one timer for all
// pods, and none while nothing is due. A pod is in it once: the earlier time wins.
type dueQueue struct {
	out  chan pod.UID
	wake chan struct{}

	mu   sync.Mutex
	at   map[pod.UID]time.Time
	line *queue.Queue[pod.UID]
}

func newDueQueue() *dueQueue {
	at := map[pod.UID]time.Time{}
	return &dueQueue{
		out: make(chan pod.UID), wake: make(chan struct{}, 1),
		at: at, line: queue.New(func(a, b pod.UID) bool { return at[a].Before(at[b]) }),
	}
}

// add has a pod sent at that time. The time that is left is measured by the monotonic clock, so
// that setting the wall clock neither delays nor hurries the pod.
func (q *dueQueue) add(uid pod.UID, at time.Time) {
	now := time.Now()
	at = now.Add(at.Sub(now)) // with a reading of the monotonic clock
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.at[uid]; ok && !at.Before(known) {
		return
	}
	q.at[uid] = at
	q.line.Put(uid)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run sends each pod on out when its time has come.
func (q *dueQueue) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		uid, wait, ok := q.next()
		if ok && wait <= 0 {
			select {
			case q.out <- uid:
				continue
			case <-ctx.Done():
				return
			}
		}
		timer.Stop()
		if ok {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-q.wake:
		case <-ctx.Done():
			return
		}
	}
}

// next returns the pod that is due first, and removes it if its time has come.
func (q *dueQueue) next() (uid pod.UID, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if uid, ok = q.line.First(); !ok {
		return "", 0, false
	}
	if wait = time.Until(q.at[uid]); wait <= 0 {
		q.line.Remove(uid)
		delete(q.at, uid)
	}
	return uid, wait, true
}
