package pod

import v1 "k8s.io/api/core/v1"

// QOSClass returns the QoS class of a pod: Guaranteed if the requests of every container equal
// its limits, BestEffort if no container has requests or limits, Burstable otherwise. Init
// containers count as well. Requests and limits of the pod as a whole count instead of those of
// its containers.
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
			// A missing request is as large as the limit. A request of zero is not.
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
