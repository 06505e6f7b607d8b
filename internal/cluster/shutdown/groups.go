package shutdown

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/pod"
)

// Priorities of the two system priority classes, from which on a pod is critical.
const (
	clusterCritical = int32(2_000_000_000)
	nodeCritical    = int32(2_000_001_000)
)

// forever is the period of a group without a limit.
const forever = time.Duration(math.MaxInt64)

// Period is how long pods may take to stop whose priority is at least Priority, and below that of
// the next period.
type Period struct {
	Priority int32
	For      time.Duration
}

// Group is a set of pods that stop at the same time.
type Group struct {
	Period
	Pods []*v1.Pod
}

// Periods returns the periods of a KubeletConfiguration, ordered by priority: from
// shutdownGracePeriod and shutdownGracePeriodCriticalPods, which is a part of it, or from
// shutdownGracePeriodByPodPriority. If none is set there are no periods, and the agent does not
// delay a shutdown of the machine.
func Periods(total, critical time.Duration, byPriority []kubeletconfig.ShutdownGracePeriodByPodPriority) ([]Period, error) {
	for name, d := range map[string]time.Duration{"shutdownGracePeriod": total, "shutdownGracePeriodCriticalPods": critical} {
		if d < 0 || d > 0 && d < time.Second {
			return nil, fmt.Errorf("%s is %s: give 0, or at least 1s", name, d)
		}
	}
	switch {
	case critical > total:
		return nil, fmt.Errorf("shutdownGracePeriodCriticalPods is %s, which is more than shutdownGracePeriod, %s: it is a part of it", critical, total)
	case total > 0 && len(byPriority) > 0:
		return nil, fmt.Errorf("shutdownGracePeriodByPodPriority and shutdownGracePeriod are both set: choose one of them")
	case total > 0:
		return []Period{{0, total - critical}, {clusterCritical, critical}}, nil
	}
	var periods []Period
	for _, p := range byPriority {
		if p.ShutdownGracePeriodSeconds < 0 {
			return nil, fmt.Errorf("shutdownGracePeriodByPodPriority gives priority %d %d seconds, which can't be below 0", p.Priority, p.ShutdownGracePeriodSeconds)
		}
		if slices.ContainsFunc(periods, func(known Period) bool { return known.Priority == p.Priority }) {
			return nil, fmt.Errorf("shutdownGracePeriodByPodPriority has priority %d twice", p.Priority)
		}
		periods = append(periods, Period{p.Priority, time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	slices.SortFunc(periods, func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	return periods, nil
}

// Plan sorts pods into the groups in which they stop, the lowest priorities first. periods are
// ordered by priority, and not empty. A pod belongs to the last period that does not begin above
// its priority, or to the first one. Groups without pods are left out.
func Plan(pods []*v1.Pod, periods []Period) []Group {
	groups := make([]Group, len(periods))
	for i, period := range periods {
		groups[i].Period = period
	}
	for _, p := range pods {
		at := 0
		for at+1 < len(groups) && groups[at+1].Priority <= priority(p) {
			at++
		}
		groups[at].Pods = append(groups[at].Pods, p)
	}
	groups = slices.DeleteFunc(groups, func(g Group) bool { return len(g.Pods) == 0 })
	for _, g := range groups {
		slices.SortFunc(g.Pods, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(pod.Ref(a), pod.Ref(b)), cmp.Compare(a.UID, b.UID))
		})
	}
	return groups
}

// priority returns the priority of a pod for the order of the shutdown, as the kubelet does: the
// number in the spec, and 0 without one, also for static pods, which are critical only for
// admission. In a cluster, the API server writes the number. A static pod with a class name has no
// number, so the names of the two system priority classes are known here.
func priority(p *v1.Pod) int32 {
	switch {
	case p.Spec.Priority != nil:
		return *p.Spec.Priority
	case p.Spec.PriorityClassName == "system-node-critical":
		return nodeCritical
	case p.Spec.PriorityClassName == "system-cluster-critical":
		return clusterCritical
	}
	return 0
}

// grace returns how many seconds a pod of the group may take to stop: as many as it asks for, but
// no more than the period, nor than most if that is not nil.
func (g Group) grace(p *v1.Pod, most *int64) int64 {
	grace := min(pod.Grace(p), int64(g.For/time.Second))
	if most != nil {
		grace = min(grace, *most)
	}
	return grace
}

// total returns the sum of the periods.
func total(periods []Period) time.Duration {
	var sum time.Duration
	for _, p := range periods {
		sum += p.For
	}
	return sum
}
