package status

import v1 "k8s.io/api/core/v1"

// qosClass is how well a pod is protected when the machine runs short:
// Guaranteed if every container is promised exactly what it may use, BestEffort
// if none asks for anything, Burstable otherwise. Init containers count as well.
func qosClass(p *v1.Pod) v1.PodQOSClass {
	guaranteed, anything := true, false
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
				request, limit := r.Requests[name], r.Limits[name]
				anything = anything || !request.IsZero() || !limit.IsZero()
				if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case !anything:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}
