package agent

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"berth/internal/pod"
)

// dueQueue holds who is to be looked at, and when. There is one timer for all
// pods, and none while nothing is due. A pod is in it once: the earlier time wins.
type dueQueue struct {
	out  chan pod.UID
	wake chan struct{}

	mu    sync.Mutex
	items dueHeap
	at    map[pod.UID]*dueItem
}

func newDueQueue() *dueQueue {
	return &dueQueue{out: make(chan pod.UID), wake: make(chan struct{}, 1), at: map[pod.UID]*dueItem{}}
}

// add asks for a look at a pod at that time.
func (q *dueQueue) add(uid pod.UID, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if item := q.at[uid]; item == nil {
		item = &dueItem{uid: uid, at: at}
		q.at[uid] = item
		heap.Push(&q.items, item)
	} else if at.Before(item.at) {
		item.at = at
		heap.Fix(&q.items, item.index)
	}
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

// next returns the first pod in line. One whose time has come is taken out.
func (q *dueQueue) next() (uid pod.UID, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return "", 0, false
	}
	first := q.items[0]
	if wait = time.Until(first.at); wait <= 0 {
		heap.Pop(&q.items)
		delete(q.at, first.uid)
	}
	return first.uid, wait, true
}

type dueItem struct {
	uid   pod.UID
	at    time.Time
	index int
}

type dueHeap []*dueItem

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	item := x.(*dueItem) //nolint:errcheck // heap hands on what add gave it
	item.index = len(*h)
	*h = append(*h, item)
}

func (h *dueHeap) Pop() any {
	old := *h
	item := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return item
}
