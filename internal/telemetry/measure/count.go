package measure

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/metrics"
)

// Count says how many of what there are: of the pods that are desired, those that
// have a worker, and what was last seen of them in the runtime. mirrored says
// whether a static pod can be seen at the API server.
func Count(desired []*v1.Pod, mirrored func(*v1.Pod) bool, lives map[pod.UID]worker.Life, known []pod.Observed) metrics.Counts {
	out := metrics.Counts{Containers: map[string]int{}, Working: map[metrics.Work]int{}, UIDs: map[pod.UID]bool{}}
	wanted := map[pod.UID]bool{}
	for _, p := range desired {
		wanted[p.UID], out.UIDs[p.UID] = true, true
		add(&out.Desired, p)
		out.Ephemeral += len(p.Spec.EphemeralContainers)
		if l, ok := lives[p.UID]; ok && l.Phase < worker.Terminated {
			add(&out.Active, p)
		}
		if pod.IsStatic(p) && mirrored(p) {
			out.Mirrors++
		}
	}
	for uid, l := range lives {
		out.UIDs[uid] = true
		work := metrics.Work{Lifecycle: lifecycle(l.Phase), Config: "desired", Static: pod.IsStatic(l.Pod)}
		switch {
		case wanted[uid]:
		case pod.Source(l.Pod) == "": // no source ever had it
			work.Config = "runtime_only"
		default:
			work.Config = "orphan"
		}
		out.Working[work]++
	}
	for _, o := range known {
		if o.Running() {
			out.Running++
		}
		for _, c := range o.Containers {
			out.Containers[state(c.State)]++
		}
	}
	return out
}

func add(k *metrics.Kinds, p *v1.Pod) {
	if pod.IsStatic(p) {
		k.Static++
	} else {
		k.Regular++
	}
}

func lifecycle(p worker.Phase) string {
	switch p {
	case worker.Syncing:
		return "sync"
	case worker.Terminating:
		return "terminating"
	default:
		return "terminated"
	}
}

func state(s pod.ContainerState) string {
	switch s {
	case pod.ContainerCreated:
		return "created"
	case pod.ContainerRunning:
		return "running"
	case pod.ContainerExited:
		return "exited"
	default:
		return "unknown"
	}
}
