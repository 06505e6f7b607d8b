package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/pod"
	"berth/internal/worker"
)

// view is what the loop lets readers see of itself.
type view struct {
	mu      sync.Mutex
	refused []pod.Refusal
	// leaving are the times at which pods were first seen to be terminating.
	leaving map[pod.UID]time.Time
}

// showPods lets readers see the newest refusals, and tells them that pods came or went.
func (a *Agent) showPods() {
	var all []pod.Refusal
	for _, refused := range a.refused {
		all = append(all, refused...)
	}
	slices.SortFunc(all, func(x, y pod.Refusal) int {
		return strings.Compare(x.Origin+x.Pod+x.Object+x.Message, y.Origin+y.Pod+y.Object+y.Message)
	})
	a.view.mu.Lock()
	a.view.refused = all
	a.view.mu.Unlock()
	a.Statuses.Touch()
}

// List returns every pod of this node with its present status: those that are
// wanted, and those that are still on their way out.
func (a *Agent) List() ([]*v1.Pod, []pod.Refusal) {
	a.view.mu.Lock()
	defer a.view.mu.Unlock()
	var lives map[pod.UID]worker.Life
	if a.workers != nil { // else the loop has not begun
		lives = a.workers.Lives()
	}
	pods := map[pod.UID]*v1.Pod{}
	for _, p := range a.Desired.Pods() {
		pods[p.UID] = p
	}
	leaving := map[pod.UID]time.Time{}
	for uid, l := range lives {
		_, told := a.Statuses.Get(uid)
		erased := l.Phase == worker.Gone || l.Phase == worker.Terminated && !told
		if l.Removed && !erased {
			pods[uid] = l.Pod
			leaving[uid] = a.view.leaving[uid]
			if leaving[uid].IsZero() {
				leaving[uid] = time.Now()
			}
		}
	}
	a.view.leaving = leaving

	out := make([]*v1.Pod, 0, len(pods))
	for uid, p := range pods {
		shown := *p
		if s, ok := a.Statuses.Get(uid); ok {
			shown.Status = s
		} else {
			shown.Status = v1.PodStatus{Phase: v1.PodPending}
		}
		if shown.CreationTimestamp.IsZero() && shown.Status.StartTime != nil {
			shown.CreationTimestamp = *shown.Status.StartTime // nobody else created a static pod
		}
		if at, ok := leaving[uid]; ok && shown.DeletionTimestamp == nil {
			shown.DeletionTimestamp = &metav1.Time{Time: at}
		}
		out = append(out, &shown)
	}
	slices.SortFunc(out, func(x, y *v1.Pod) int {
		return strings.Compare(pod.Ref(x)+string(x.UID), pod.Ref(y)+string(y.UID))
	})
	return out, slices.Clone(a.view.refused)
}

// Watch returns a channel that says "list again" after every change, until ctx ends.
func (a *Agent) Watch(ctx context.Context) <-chan struct{} {
	changed, stop := a.Statuses.Watch()
	context.AfterFunc(ctx, stop)
	return changed
}
