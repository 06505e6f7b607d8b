package execute

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// withVolumeGroups returns the pod with the supplemental groups that the use of its volumes needs.
// They are known once the volumes are set up.
func (e *Executor) withVolumeGroups(p *v1.Pod) *v1.Pod {
	more := e.Volumes.Groups(p.UID)
	if len(more) == 0 {
		return p
	}
	out := *p
	security := v1.PodSecurityContext{}
	if p.Spec.SecurityContext != nil {
		security = *p.Spec.SecurityContext
	}
	security.SupplementalGroups = slices.Clone(security.SupplementalGroups)
	for _, group := range more {
		if !slices.Contains(security.SupplementalGroups, group) {
			security.SupplementalGroups = append(security.SupplementalGroups, group)
		}
	}
	out.Spec.SecurityContext = &security
	return &out
}
