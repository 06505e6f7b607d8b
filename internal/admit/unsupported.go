package admit

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// The features that berth does not have yet. To run a pod without what it asks
// for would be worse than not to run it, so each is refused by name. A release
// that learns one takes its row out.
//
// Not in here, and left aside without a word: what only schedulers and admission
// plugins read (affinity to other pods, topology spread, scheduling gates),
// service accounts, and image pull secrets.

type podFeature struct {
	field string
	used  func(*v1.PodSpec) bool
}

var podFeatures = []podFeature{
	{"volumes other than " + strings.Join(volumeKinds, ", "), func(s *v1.PodSpec) bool { return slices.ContainsFunc(s.Volumes, isOtherVolume) }},
	{"overhead", func(s *v1.PodSpec) bool { return len(s.Overhead) > 0 }},
	{"hostAliases", func(s *v1.PodSpec) bool { return len(s.HostAliases) > 0 }},
	{"hostnameOverride", func(s *v1.PodSpec) bool { return s.HostnameOverride != nil }},
	{"setHostnameAsFQDN", func(s *v1.PodSpec) bool { return s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN }},
	{"hostUsers: false", func(s *v1.PodSpec) bool { return s.HostUsers != nil && !*s.HostUsers }},
	{"resourceClaims", func(s *v1.PodSpec) bool { return len(s.ResourceClaims) > 0 }},
	{"resources", func(s *v1.PodSpec) bool {
		return s.Resources != nil && len(s.Resources.Limits)+len(s.Resources.Requests)+len(s.Resources.Claims) > 0
	}},
	{"securityContext.seLinuxOptions", podSecurity(func(c *v1.PodSecurityContext) bool { return c.SELinuxOptions != nil })},
	{"securityContext.windowsOptions", podSecurity(func(c *v1.PodSecurityContext) bool { return c.WindowsOptions != nil })},
	{"securityContext.seccompProfile of type Localhost", podSecurity(func(c *v1.PodSecurityContext) bool { return isLocalhost(c.SeccompProfile) })},
	{"securityContext.appArmorProfile", podSecurity(func(c *v1.PodSecurityContext) bool { return isConfined(c.AppArmorProfile) })},
	{"securityContext.supplementalGroupsPolicy: Strict", podSecurity(func(c *v1.PodSecurityContext) bool {
		return c.SupplementalGroupsPolicy != nil && *c.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyMerge
	})},
}

type containerFeature struct {
	field string
	used  func(*v1.PodSpec, *v1.Container) bool
}

var containerFeatures = []containerFeature{
	{"volumeDevices", container(func(c *v1.Container) bool { return len(c.VolumeDevices) > 0 })},
	{"env.valueFrom.fileKeyRef", env(func(s *v1.EnvVarSource) bool { return s.FileKeyRef != nil })},
	{"resources.claims", container(func(c *v1.Container) bool { return len(c.Resources.Claims) > 0 })},
	{"resources other than cpu, memory, ephemeral-storage", container(func(c *v1.Container) bool {
		return anyOtherResource(c.Resources.Limits) || anyOtherResource(c.Resources.Requests)
	})},
	{"securityContext.runAsNonRoot without a runAsUser", mayBeRoot},
	{"securityContext.seLinuxOptions", security(func(c *v1.SecurityContext) bool { return c.SELinuxOptions != nil })},
	{"securityContext.windowsOptions", security(func(c *v1.SecurityContext) bool { return c.WindowsOptions != nil })},
	{"securityContext.seccompProfile of type Localhost", security(func(c *v1.SecurityContext) bool { return isLocalhost(c.SeccompProfile) })},
	{"securityContext.appArmorProfile", security(func(c *v1.SecurityContext) bool { return isConfined(c.AppArmorProfile) })},
	{"securityContext.procMount: Unmasked", security(func(c *v1.SecurityContext) bool {
		return c.ProcMount != nil && *c.ProcMount != v1.DefaultProcMount
	})},
}

var volumeKinds = []string{"emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected", "persistentVolumeClaim"}

// isOtherVolume tells whether a volume is of a kind that is not in volumeKinds.
func isOtherVolume(v v1.Volume) bool {
	return v.EmptyDir == nil && v.HostPath == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil &&
		v.Projected == nil && v.PersistentVolumeClaim == nil
}

// maxNamed is how many features a message names.
const maxNamed = 8

func checkFeatures(p *v1.Pod, _ Node) *Rejection {
	var fields []string
	for _, f := range podFeatures {
		if f.used(&p.Spec) {
			fields = append(fields, "spec."+f.field)
		}
	}
	fields = append(fields, unsupportedIn(&p.Spec, "initContainers", p.Spec.InitContainers)...)
	fields = append(fields, unsupportedIn(&p.Spec, "containers", p.Spec.Containers)...)
	fields = append(fields, unsupportedIn(&p.Spec, "ephemeralContainers", ephemeral(&p.Spec))...)
	if len(fields) == 0 {
		return nil
	}
	message := "not supported yet: " + strings.Join(fields[:min(len(fields), maxNamed)], "; ")
	if more := len(fields) - maxNamed; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return &Rejection{Reason: pod.ReasonFeatureUnsupported, Message: message}
}

func unsupportedIn(s *v1.PodSpec, list string, containers []v1.Container) []string {
	var fields []string
	for i := range containers {
		c := &containers[i]
		for _, f := range containerFeatures {
			if f.used(s, c) {
				fields = append(fields, fmt.Sprintf("spec.%s[%s].%s", list, c.Name, f.field))
			}
		}
	}
	return fields
}

func ephemeral(s *v1.PodSpec) []v1.Container {
	var out []v1.Container
	for _, c := range s.EphemeralContainers {
		out = append(out, v1.Container(c.EphemeralContainerCommon))
	}
	return out
}

func podSecurity(used func(*v1.PodSecurityContext) bool) func(*v1.PodSpec) bool {
	return func(s *v1.PodSpec) bool { return s.SecurityContext != nil && used(s.SecurityContext) }
}

func container(used func(*v1.Container) bool) func(*v1.PodSpec, *v1.Container) bool {
	return func(_ *v1.PodSpec, c *v1.Container) bool { return used(c) }
}

func security(used func(*v1.SecurityContext) bool) func(*v1.PodSpec, *v1.Container) bool {
	return container(func(c *v1.Container) bool { return c.SecurityContext != nil && used(c.SecurityContext) })
}

func env(used func(*v1.EnvVarSource) bool) func(*v1.PodSpec, *v1.Container) bool {
	return container(func(c *v1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.ValueFrom != nil && used(e.ValueFrom) })
	})
}

func isLocalhost(p *v1.SeccompProfile) bool {
	return p != nil && p.Type == v1.SeccompProfileTypeLocalhost
}

func isConfined(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}

func anyOtherResource(list v1.ResourceList) bool {
	for name := range list {
		if name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
			return true
		}
	}
	return false
}

// mayBeRoot tells whether a container must not run as root and does not say as
// whom instead. Nobody looks up the user of its image yet.
func mayBeRoot(s *v1.PodSpec, c *v1.Container) bool {
	var nonRoot *bool
	var user *int64
	if s.SecurityContext != nil {
		nonRoot, user = s.SecurityContext.RunAsNonRoot, s.SecurityContext.RunAsUser
	}
	if own := c.SecurityContext; own != nil {
		if own.RunAsNonRoot != nil {
			nonRoot = own.RunAsNonRoot
		}
		if own.RunAsUser != nil {
			user = own.RunAsUser
		}
	}
	return nonRoot != nil && *nonRoot && (user == nil || *user == 0)
}
