package plan

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// StopOrder returns the running containers of a pod in the waves in which they are
// stopped: those of a wave at the same time, one wave after the other. Sidecars
// serve the main containers and the init container that runs, so they are stopped last, in reverse order of
// their start. The kubelet stops an init container and the sidecars at the same time.
func StopOrder(p *v1.Pod, containers []pod.Container) [][]pod.Container {
	var first []pod.Container
	sidecars := map[string][]pod.Container{}
	for _, c := range containers {
		if !c.MayRun() {
			continue
		}
		if spec := pod.ContainerSpec(p, c.Name); spec != nil && pod.IsInit(p, c.Name) && pod.IsSidecar(spec) {
			sidecars[c.Name] = append(sidecars[c.Name], c)
		} else {
			first = append(first, c)
		}
	}
	var waves [][]pod.Container
	if len(first) > 0 {
		waves = append(waves, first)
	}
	for _, spec := range slices.Backward(p.Spec.InitContainers) {
		if wave := sidecars[spec.Name]; len(wave) > 0 {
			waves = append(waves, wave)
		}
	}
	return waves
}
