package admit

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

// The features that berth does not have yet. To run a pod without what it asks
// for would be worse than not to run it, so each is refused by name. A release
// that learns one takes its row out.
//
// Not in here, and left aside without a word: what only schedulers and admission
// plugins read (affinity to other pods, topology spread, scheduling gates).

type podFeature struct {
	field string
	used  func(*v1.PodSpec) bool
}

var podFeatures = []podFeature{
	{"resourceClaims", func(s *v1.PodSpec) bool { return len(s.ResourceClaims) > 0 }},
	{"resources.claims", func(s *v1.PodSpec) bool { return s.Resources != nil && len(s.Resources.Claims) > 0 }},
	{"securityContext.windowsOptions", podSecurity(func(c *v1.PodSecurityContext) bool { return c.WindowsOptions != nil })},
}

type containerFeature struct {
	field string
	used  func(*v1.PodSpec, *v1.Container, Node) bool
}

var containerFeatures = []containerFeature{
	{"volumeDevices other than " + volumekind.List(deviceKinds()), func(s *v1.PodSpec, c *v1.Container, _ Node) bool {
		return slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return !canBeDevice(s, d.Name) })
	}},
	{"resources.claims", container(func(c *v1.Container) bool { return len(c.Resources.Claims) > 0 })},
	// In a cluster, an extended resource that is set in the Node's status is counted like any
	// other.
	{"resources other than cpu, memory, ephemeral-storage, hugepages", func(_ *v1.PodSpec, c *v1.Container, n Node) bool {
		return !n.InCluster && (anyOtherResource(c.Resources.Limits) || anyOtherResource(c.Resources.Requests))
	}},
	{"securityContext.windowsOptions", security(func(c *v1.SecurityContext) bool { return c.WindowsOptions != nil })},
}

func deviceKinds() []volumekind.Kind {
	return slices.DeleteFunc(volumekind.All(), func(k volumekind.Kind) bool { return !k.CanBeDevice() })
}

// canBeDevice reports whether a volume is of a kind in deviceKinds.
func canBeDevice(s *v1.PodSpec, volume string) bool {
	return slices.ContainsFunc(s.Volumes, func(v v1.Volume) bool {
		return v.Name == volume && volumekind.Of(&v.VolumeSource).CanBeDevice()
	})
}

// maxNamed is how many features a message names.
const maxNamed = 8

func checkFeatures(p *v1.Pod, n Node) *Rejection {
	var fields []string
	for _, f := range podFeatures {
		if f.used(&p.Spec) {
			fields = append(fields, "spec."+f.field)
		}
	}
	fields = append(fields, unsupportedIn(&p.Spec, n, "initContainers", p.Spec.InitContainers)...)
	fields = append(fields, unsupportedIn(&p.Spec, n, "containers", p.Spec.Containers)...)
	fields = append(fields, unsupportedIn(&p.Spec, n, "ephemeralContainers", ephemeral(&p.Spec))...)
	if len(fields) == 0 {
		return nil
	}
	message := "not supported yet: " + strings.Join(fields[:min(len(fields), maxNamed)], "; ")
	if more := len(fields) - maxNamed; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return &Rejection{Reason: pod.ReasonFeatureUnsupported, Message: message}
}

func unsupportedIn(s *v1.PodSpec, n Node, list string, containers []v1.Container) []string {
	var fields []string
	for i := range containers {
		c := &containers[i]
		for _, f := range containerFeatures {
			if f.used(s, c, n) {
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

func container(used func(*v1.Container) bool) func(*v1.PodSpec, *v1.Container, Node) bool {
	return func(_ *v1.PodSpec, c *v1.Container, _ Node) bool { return used(c) }
}

func security(used func(*v1.SecurityContext) bool) func(*v1.PodSpec, *v1.Container, Node) bool {
	return container(func(c *v1.Container) bool { return c.SecurityContext != nil && used(c.SecurityContext) })
}

func anyOtherResource(list v1.ResourceList) bool {
	for name := range list {
		if name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage &&
			!strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			return true
		}
	}
	return false
}
