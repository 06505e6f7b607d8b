package measure

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// terminated remembers the containers in the newest status of each pod that have ended, so that each is counted once.
type terminated struct {
	since time.Time // containers that ended before are not counted: an earlier agent has
	mu    sync.Mutex
	byPod map[pod.UID][]string // IDs
}

// countTerminated counts the containers that have ended since the status before.
func (w *Recorder) countTerminated(p *v1.Pod, s *v1.PodStatus) {
	t := &w.terminated
	t.mu.Lock()
	defer t.mu.Unlock()
	var ended []string
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		for _, state := range []*v1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if state == nil || state.ContainerID == "" || slices.Contains(ended, state.ContainerID) {
				continue
			}
			ended = append(ended, state.ContainerID)
			if !slices.Contains(t.byPod[p.UID], state.ContainerID) && !state.FinishedAt.Time.Before(t.since) {
				w.Metrics.ContainerTerminated(kindOf(p, c.Name), state.ExitCode, state.Reason)
			}
		}
	}
	if len(ended) > 0 {
		t.byPod[p.UID] = ended
	}
}

// forget drops a pod of which nothing is left.
func (t *terminated) forget(uid pod.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byPod, uid)
}
