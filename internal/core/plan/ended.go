package plan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// ended reports whether no container of the pod will run again, and since when: all
// main containers ended for good, or an init container failed for good.
// Sidecars and ephemeral containers do not count.
func (v *view) ended() (at time.Time, ended bool) {
	if failed := v.failedInit(); failed != nil {
		return failed.FinishedAt, true
	}
	for i := range v.want.Spec.Containers {
		spec := &v.want.Spec.Containers[i]
		c := v.have.Container(spec.Name)
		if c == nil || c.State != pod.ContainerExited || v.outdated(c) || verdictOn(v.want, spec, c) != final {
			return time.Time{}, false
		}
		if c.FinishedAt.After(at) {
			at = c.FinishedAt
		}
	}
	return at, true
}

// failedInit returns the init container that failed for good, if there is one.
func (v *view) failedInit() *pod.Container {
	for i := range v.want.Spec.InitContainers {
		spec := &v.want.Spec.InitContainers[i]
		c := v.have.Container(spec.Name)
		if c == nil || c.State != pod.ContainerExited || c.ExitCode == 0 || v.outdated(c) {
			continue
		}
		if verdictOn(v.want, spec, c) == final {
			return c
		}
	}
	return nil
}

// endInDoubt reports whether the pod may turn out to have ended once its old sandbox
// is stopped, by the exit codes of the containers that are stopped with it. Then
// no container is started before they are known.
func (v *view) endInDoubt() bool {
	for i := range v.want.Spec.InitContainers {
		spec := &v.want.Spec.InitContainers[i]
		if c := v.have.Container(spec.Name); c != nil && c.MayRun() && !v.mayComeBack(spec) {
			return true
		}
	}
	doubt := false
	for i := range v.want.Spec.Containers {
		spec := &v.want.Spec.Containers[i]
		switch c := v.have.Container(spec.Name); {
		case c == nil, v.outdated(c), c.State == pod.ContainerCreated:
			return false
		case c.State == pod.ContainerExited && verdictOn(v.want, spec, c) != final:
			return false
		case c.MayRun():
			p := policyOf(v.want, spec)
			if p != v1.ContainerRestartPolicyNever && p != v1.ContainerRestartPolicyOnFailure {
				return false
			}
			doubt = true
		}
	}
	return doubt
}
