package shutdown

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// Step is the kind of a Progress.
type Step int

const (
	// Began is the first step: Pods says how many pods are to be stopped.
	Began Step = iota
	// Stopping says that the stop of a pod was requested, and how long the pod has.
	Stopping
	// Stopped says that nothing of a pod runs any more, and how long that took.
	Stopped
	// Late says that the period of a pod's group is over, and that the pod still runs.
	Late
)

// Progress is one step of a drain.
type Progress struct {
	Step Step
	Pods int           // Began
	Pod  string        // namespace/name
	Time time.Duration // how long it has, or took
}

// stopping is the state of one run that stops pods.
type stopping struct {
	*Manager
	cause  pod.Cause
	most   *int64 // seconds of grace
	report func(Progress)

	over  <-chan time.Time      // when the timeout of the run is over; nil: there is none
	watch *run.Group            // one goroutine for each pod whose stop was requested
	ended chan *v1.Pod          // has room for all
	began map[pod.UID]time.Time // when the stop was requested
	names map[pod.UID]string    // of pods that have not ended
}

// stopAll stops one group after the other. The next group follows when all pods of the group have
// ended, or when its period is over.
func (m *Manager) stopAll(ctx context.Context, groups []Group, cause pod.Cause, o Order, report func(Progress)) ([]string, error) {
	s := &stopping{
		Manager: m, cause: cause, most: o.Grace, report: report,
		watch: run.NewGroup(ctx, m.Log), began: map[pod.UID]time.Time{}, names: map[pod.UID]string{},
	}
	defer s.watch.Stop()
	for _, g := range groups {
		for _, p := range g.Pods {
			s.names[p.UID] = pod.Ref(p)
		}
	}
	s.ended = make(chan *v1.Pod, len(s.names))
	if o.Timeout > 0 {
		s.over = time.After(o.Timeout)
	}
	m.Log.Info("stopping the pods of this node", "reason", cause.Description, "pods", len(s.names), "groups", len(groups))
	report(Progress{Step: Began, Pods: len(s.names)})
	for _, g := range groups {
		goOn, err := s.stopGroup(ctx, g)
		if err != nil {
			m.Log.Info("pods are no longer stopped", "err", err, "not stopped", len(s.names))
			return nil, err
		}
		if !goOn {
			break
		}
	}
	late := s.late()
	m.Log.Info("the pods of this node were stopped", "late", late)
	return late, nil
}

// stopGroup requests the stop of all pods of a group, and waits for them, until the period of the
// group or the time of the whole run is over. In the second case goOn is false.
func (s *stopping) stopGroup(ctx context.Context, g Group) (goOn bool, err error) {
	left := map[pod.UID]bool{}
	for _, p := range g.Pods {
		left[p.UID] = true
		s.stopPod(p, g.grace(p, s.most))
	}
	period := time.NewTimer(g.For)
	defer period.Stop()
	for len(left) > 0 {
		select {
		case p := <-s.ended: // which may be of an earlier group
			delete(left, p.UID)
			s.recordEnd(p)
		case <-period.C:
			s.reportLate(left)
			return true, nil
		case <-s.over:
			s.reportLate(left)
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return true, nil
}

// stopPod requests the stop of a pod, and does not wait.
func (s *stopping) stopPod(p *v1.Pod, grace int64) {
	s.began[p.UID] = time.Now()
	s.Pods.End(p.UID, &grace, s.cause)
	s.report(Progress{Step: Stopping, Pod: pod.Ref(p), Time: time.Duration(grace) * time.Second})
	s.watch.Go("end of pod "+pod.Ref(p), func(ctx context.Context) {
		select {
		case <-s.Pods.Ended(p.UID):
			s.ended <- p
		case <-ctx.Done():
		}
	})
}

func (s *stopping) recordEnd(p *v1.Pod) {
	s.report(Progress{Step: Stopped, Pod: pod.Ref(p), Time: time.Since(s.began[p.UID])})
	delete(s.names, p.UID)
}

func (s *stopping) reportLate(left map[pod.UID]bool) {
	var names []string
	for uid := range left {
		names = append(names, s.names[uid])
	}
	slices.Sort(names)
	for _, name := range names {
		s.report(Progress{Step: Late, Pod: name})
	}
}

// late returns the pods that have not ended, also those of groups whose turn never came.
func (s *stopping) late() []string {
	var late []string
	for uid, name := range s.names {
		select {
		case <-s.Pods.Ended(uid):
		default:
			late = append(late, name)
		}
	}
	slices.Sort(late)
	return late
}
