package downward

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

// Resource returns the value of a resourceFieldRef: a request or a limit of a container as a
// whole number of divisors, rounded up. container is used unless ref names another one.
//
// A container without a limit is limited by its pod, and a pod without one by the allocatable
// resources of the node. Huge pages are never shared, so they have no such default.
func Resource(p *v1.Pod, ref *v1.ResourceFieldSelector, container string, allocatable v1.ResourceList) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	spec := pod.ContainerSpec(p, container)
	if spec == nil {
		return "", fmt.Errorf("resource %q: there is no container %q", ref.Resource, container)
	}
	kind, text, _ := strings.Cut(ref.Resource, ".")
	name := v1.ResourceName(text)
	huge := strings.HasPrefix(text, v1.ResourceHugePagesPrefix)
	if !huge && name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
		return "", fmt.Errorf("resource %q is not one that a container can be given", ref.Resource)
	}
	switch kind {
	case "requests":
		return divide(ref.Resource, spec.Resources.Requests[name], ref.Divisor)
	case "limits":
		limits := []v1.ResourceList{spec.Resources.Limits}
		if p.Spec.Resources != nil {
			limits = append(limits, p.Spec.Resources.Limits)
		}
		limits = append(limits, allocatable)
		if huge {
			limits = limits[:1]
		}
		return divide(ref.Resource, firstSet(name, limits), ref.Divisor)
	default:
		return "", fmt.Errorf("resource %q: it begins with neither requests nor limits", ref.Resource)
	}
}

func firstSet(name v1.ResourceName, lists []v1.ResourceList) resource.Quantity {
	for _, list := range lists {
		if q := list[name]; !q.IsZero() {
			return q
		}
	}
	return resource.Quantity{}
}

// divide returns how many divisors q is, rounded up. A divisor that is not set is
// one: a core, a byte.
func divide(what string, q, divisor resource.Quantity) (string, error) {
	if divisor.IsZero() {
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if divisor.Sign() < 0 || q.Sign() < 0 {
		return "", fmt.Errorf("resource %q: neither %s nor the divisor %s may be negative", what, q.String(), divisor.String())
	}
	n, d := q.Value(), divisor.Value()
	if strings.HasSuffix(what, ".cpu") {
		n, d = q.MilliValue(), divisor.MilliValue()
	}
	count := n / d
	if n%d > 0 {
		count++
	}
	return strconv.FormatInt(count, 10), nil
}
