package pod

import v1 "k8s.io/api/core/v1"

// QOSClass is how well a pod is protected when the machine runs short:
// Guaranteed if every container is promised exactly what it may use, BestEffort
// if none asks for anything, Burstable otherwise. Init containers count as well. If
// the pod says something as a whole, that alone counts.
func QOSClass(p *v1.Pod) v1.PodQOSClass {
	var all []*v1.ResourceRequirements
	if r := p.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		all = append(all, r)
	} else {
		for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range containers {
				all = append(all, &containers[i].Resources)
			}
		}
	}
	guaranteed, anything := true, false
	for _, r := range all {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, asked := r.Requests[name]
			limit := r.Limits[name]
			anything = anything || request.Sign() > 0 || limit.Sign() > 0
			// A request that is not made is as large as the limit. One of zero is not.
			guaranteed = guaranteed && limit.Sign() > 0 && (!asked || request.Cmp(limit) == 0)
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
