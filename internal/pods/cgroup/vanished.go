package cgroup

import (
	corev1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Vanished returns the pods that run, and whose cgroup does not exist.
func Vanished(pods []*corev1.Pod, known []pod.Observed, exists func(*corev1.Pod) bool) []pod.UID {
	running := map[pod.UID]bool{}
	for _, o := range known {
		running[o.UID] = o.Running()
	}
	var out []pod.UID
	for _, p := range pods {
		if running[p.UID] && !exists(p) {
			out = append(out, p.UID)
		}
	}
	return out
}
