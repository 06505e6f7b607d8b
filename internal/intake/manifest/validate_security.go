package manifest

import (
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodSecurity(s *v1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		errs = append(errs, field.Invalid(at.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	if s.HostUsers != nil && !*s.HostUsers {
		const why = "when `hostUsers` is false"
		for _, h := range []struct {
			name string
			set  bool
		}{{"hostNetwork", s.HostNetwork}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}} {
			if h.set {
				errs = append(errs, field.Forbidden(at.Child(h.name), why))
			}
		}
	}
	c, at := s.SecurityContext, at.Child("securityContext")
	errs = append(errs, validateID(c.RunAsUser, validation.IsValidUserID, at.Child("runAsUser"))...)
	errs = append(errs, validateID(c.RunAsGroup, validation.IsValidGroupID, at.Child("runAsGroup"))...)
	errs = append(errs, validateID(c.FSGroup, validation.IsValidGroupID, at.Child("fsGroup"))...)
	for i := range c.SupplementalGroups {
		errs = append(errs, validateID(&c.SupplementalGroups[i], validation.IsValidGroupID, at.Child("supplementalGroups").Index(i))...)
	}
	if p := c.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(*p, at.Child("supplementalGroupsPolicy"), v1.SupplementalGroupsPolicyMerge, v1.SupplementalGroupsPolicyStrict)...)
	}
	if p := c.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOf(*p, at.Child("fsGroupChangePolicy"), v1.FSGroupChangeOnRootMismatch, v1.FSGroupChangeAlways)...)
	}
	names := sets.New[string]()
	for i, sysctl := range c.Sysctls {
		at := at.Child("sysctls").Index(i).Child("name")
		errs = append(errs, required(sysctl.Name, at, isSysctl)...)
		errs = append(errs, checkUnique(sysctl.Name, at, names)...)
	}
	errs = append(errs, validateSeccomp(c.SeccompProfile, at.Child("seccompProfile"))...)
	return append(errs, validateAppArmor(c.AppArmorProfile, at.Child("appArmorProfile"))...)
}

// isSysctl accepts names such as net.ipv4.ip_forward or net/ipv4/ip_forward.
// They become paths under /proc/sys.
func isSysctl(name string) []string {
	if len(name) > 253 {
		return []string{validation.MaxLenError(253)}
	}
	if !regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$`).MatchString(name) {
		return []string{"must be the name of a sysctl, as in net.ipv4.ip_forward"}
	}
	return nil
}

func validateSecurity(c *v1.SecurityContext, at *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := validateID(c.RunAsUser, validation.IsValidUserID, at.Child("runAsUser"))
	errs = append(errs, validateID(c.RunAsGroup, validation.IsValidGroupID, at.Child("runAsGroup"))...)
	if c.ProcMount != nil {
		errs = append(errs, oneOf(*c.ProcMount, at.Child("procMount"), v1.DefaultProcMount, v1.UnmaskedProcMount)...)
	}
	if escalate := c.AllowPrivilegeEscalation; escalate != nil && !*escalate {
		if c.Privileged != nil && *c.Privileged {
			errs = append(errs, field.Invalid(at, "privileged", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if c.Capabilities != nil && slices.Contains(c.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(at, "capabilities", "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	errs = append(errs, validateSeccomp(c.SeccompProfile, at.Child("seccompProfile"))...)
	return append(errs, validateAppArmor(c.AppArmorProfile, at.Child("appArmorProfile"))...)
}

func validateID(id *int64, check func(int64) []string, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	var errs field.ErrorList
	for _, message := range check(*id) {
		errs = append(errs, field.Invalid(at, *id, message))
	}
	return errs
}

func validateSeccomp(p *v1.SeccompProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(p.Type, at.Child("type"), v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	return append(errs, validateLocalhost(p.Type == v1.SeccompProfileTypeLocalhost, p.LocalhostProfile, isLocalPath, at)...)
}

func validateAppArmor(p *v1.AppArmorProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(p.Type, at.Child("type"), v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	return append(errs, validateLocalhost(p.Type == v1.AppArmorProfileTypeLocalhost, p.LocalhostProfile, isOneLine, at)...)
}

// validateLocalhost checks that localhostProfile is set if, and only if, the profile is of type
// Localhost.
func validateLocalhost(localhost bool, profile *string, check func(string) []string, at *field.Path) field.ErrorList {
	at = at.Child("localhostProfile")
	switch {
	case localhost && profile == nil:
		return field.ErrorList{field.Required(at, "must be set when type is Localhost")}
	case !localhost && profile != nil:
		return field.ErrorList{field.Invalid(at, *profile, "can only be set when type is Localhost")}
	default:
		return optionalPtr(profile, at, check)
	}
}
