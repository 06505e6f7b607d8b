package objects

import v1 "k8s.io/api/core/v1"

// WithOverhead returns a pod with what its RuntimeClass says that it costs beside its
// containers. In a cluster, API servers see to that when a pod is made. A pod that says it
// itself, and one whose class is not there, are returned as they are.
func (l *Local) WithOverhead(p *v1.Pod) *v1.Pod {
	name := RuntimeClassOf(p)
	if name == "" || p.Spec.Overhead != nil {
		return p
	}
	class, err := l.class(name)
	if err != nil || class.Overhead == nil || len(class.Overhead.PodFixed) == 0 {
		return p
	}
	out := p.DeepCopy()
	out.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	return out
}
