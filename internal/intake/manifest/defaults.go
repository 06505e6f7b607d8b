package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// setDefaults fills in what an API server would have filled in before a node
// gets to see the pod.
func setDefaults(p *v1.Pod) {
	fill(&p.Namespace, metav1.NamespaceDefault)
	s := &p.Spec
	fill(&s.RestartPolicy, v1.RestartPolicyAlways)
	fill(&s.DNSPolicy, v1.DNSClusterFirst)
	fill(&s.SchedulerName, v1.DefaultSchedulerName)
	fillPtr(&s.TerminationGracePeriodSeconds, pod.DefaultGrace)
	fillPtr(&s.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	fillPtr(&s.SecurityContext, v1.PodSecurityContext{})
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i], s.HostNetwork)
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i], s.HostNetwork)
	}
	for i := range s.EphemeralContainers {
		c := v1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&c, false)
		s.EphemeralContainers[i].EphemeralContainerCommon = v1.EphemeralContainerCommon(c)
	}
	roundUp(s.Overhead)
	if s.Resources != nil {
		defaultPodResources(s)
	}
}

// fill sets what was left out.
func fill[T comparable](at *T, value T) {
	var zero T
	if *at == zero {
		*at = value
	}
}

func fillPtr[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	fill(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			fill(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				fillPtr(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, h := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	requestLimits(&c.Resources, nil)
	defaultResize(c)
}

// pullPolicy is Always for an image that may be another one tomorrow: one whose
// tag is latest, written out or not.
func pullPolicy(image string) v1.PullPolicy {
	name, digest, _ := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	if tag == "latest" || (tag == "" && digest == "") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	fill(&p.TimeoutSeconds, 1)
	fill(&p.PeriodSeconds, 10)
	fill(&p.SuccessThreshold, 1)
	fill(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		fillPtr(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *v1.HTTPGetAction) {
	if a != nil {
		fill(&a.Path, "/")
		fill(&a.Scheme, v1.URISchemeHTTP)
	}
}

func defaultFieldRef(r *v1.ObjectFieldSelector) {
	if r != nil {
		fill(&r.APIVersion, "v1")
	}
}

// requestLimits makes a container that only says its limits request as much,
// except for the resources that skip names.
func requestLimits(r *v1.ResourceRequirements, skip map[v1.ResourceName]bool) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok || skip[name] {
			continue
		}
		if r.Requests == nil {
			r.Requests = make(v1.ResourceList)
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// defaultPodResources completes the requests of the pod as a whole. What its
// containers request themselves is theirs to add up.
func defaultPodResources(s *v1.PodSpec) {
	byContainers := make(map[v1.ResourceName]bool)
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for _, c := range list {
			for name := range c.Resources.Requests {
				byContainers[name] = true
			}
		}
	}
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
	requestLimits(s.Resources, byContainers)
}

// roundUp drops what is finer than a thousandth: no resource is counted finer.
func roundUp(list v1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// defaultResize says that a changed cpu or memory amount needs no restart, for
// each of the two that the container sets.
func defaultResize(c *v1.Container) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		_, requested := c.Resources.Requests[name]
		said := false
		for _, p := range c.ResizePolicy {
			said = said || p.ResourceName == name
		}
		if requested && !said {
			c.ResizePolicy = append(c.ResizePolicy, v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.NotRequired})
		}
	}
}
