package admit

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// checkAppArmor rejects a pod with an AppArmor profile if the kernel has no AppArmor.
func checkAppArmor(p *v1.Pod, node Node) *Rejection {
	if node.AppArmor || !slices.ContainsFunc(appArmorProfiles(&p.Spec), isConfined) {
		return nil
	}
	return &Rejection{Reason: reasonAppArmor, Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
}

// appArmorProfiles returns the AppArmor profiles of a pod and of all its containers.
func appArmorProfiles(s *v1.PodSpec) []*v1.AppArmorProfile {
	var out []*v1.AppArmorProfile
	if s.SecurityContext != nil {
		out = append(out, s.SecurityContext.AppArmorProfile)
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers, ephemeral(s)) {
		if c.SecurityContext != nil {
			out = append(out, c.SecurityContext.AppArmorProfile)
		}
	}
	return out
}

func isConfined(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}

// checkGroups rejects a pod with the Strict supplementalGroupsPolicy if the runtime does not
// support it.
func checkGroups(p *v1.Pod, node Node) *Rejection {
	s := p.Spec.SecurityContext
	if node.StrictGroups || s == nil || s.SupplementalGroupsPolicy == nil || *s.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	return &Rejection{Reason: reasonGroupsPolicy, Message: "SupplementalGroupsPolicy=Strict is not supported in this node"}
}
