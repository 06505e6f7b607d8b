package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// setDefaults sets the defaults that an API server sets on a pod before a node gets it.
func setDefaults(p *v1.Pod) {
	setDefault(&p.Namespace, metav1.NamespaceDefault)
	s := &p.Spec
	setDefault(&s.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&s.DNSPolicy, v1.DNSClusterFirst)
	setDefault(&s.SchedulerName, v1.DefaultSchedulerName)
	setDefaultPtr(&s.TerminationGracePeriodSeconds, pod.DefaultGrace)
	setDefaultPtr(&s.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	setDefaultPtr(&s.SecurityContext, v1.PodSecurityContext{})
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

// setDefault sets a field that the manifest has left out.
func setDefault[T comparable](at *T, value T) {
	var zero T
	if *at == zero {
		*at = value
	}
}

func setDefaultPtr[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	setDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			setDefault(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setDefaultPtr(&from.FileKeyRef.Optional, false)
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
	defaultRequests(&c.Resources, nil)
	defaultResize(c)
}

// pullPolicy returns the default imagePullPolicy: Always for an image with the tag latest, written
// out or not, since that image may change; IfNotPresent for others.
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
	setDefault(&p.TimeoutSeconds, 1)
	setDefault(&p.PeriodSeconds, 10)
	setDefault(&p.SuccessThreshold, 1)
	setDefault(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setDefaultPtr(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *v1.HTTPGetAction) {
	if a != nil {
		setDefault(&a.Path, "/")
		setDefault(&a.Scheme, v1.URISchemeHTTP)
	}
}

func defaultFieldRef(r *v1.ObjectFieldSelector) {
	if r != nil {
		setDefault(&r.APIVersion, "v1")
	}
}

// defaultRequests sets the missing requests to the limits, except for the resources in skip.
func defaultRequests(r *v1.ResourceRequirements, skip map[v1.ResourceName]bool) {
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

// defaultPodResources sets the missing requests of the pod as a whole to its limits. Resources that
// a container requests are left out: the requests of the containers are added up.
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
	defaultRequests(s.Resources, byContainers)
}

// roundUp rounds quantities up to thousandths: no resource is counted in smaller units.
func roundUp(list v1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// defaultResize sets the resize policy NotRequired for cpu and memory, for each of them that the
// container sets.
func defaultResize(c *v1.Container) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		_, requested := c.Resources.Requests[name]
		hasPolicy := false
		for _, p := range c.ResizePolicy {
			hasPolicy = hasPolicy || p.ResourceName == name
		}
		if requested && !hasPolicy {
			c.ResizePolicy = append(c.ResizePolicy, v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.NotRequired})
		}
	}
}
