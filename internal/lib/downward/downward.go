// Package downward has the values of the downward API: of fieldRef and resourceFieldRef, for
// environment variables and for files of downwardAPI volumes.
//
// It is pure: addresses and the allocatable resources of the node are arguments.
package downward

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Facts are values of fieldRefs that are not in the pod's metadata or spec.
type Facts struct {
	NodeName string
	HostIPs  []string // the first is the primary address of the node
	PodIPs   []string // empty until the pod has its network
}

// Value returns the value of a fieldRef with that path. A label or annotation that the pod does
// not have is empty, and so is an address that is not known yet; a path that the downward API
// does not have is an error.
func Value(p *v1.Pod, path string, facts Facts) (string, error) {
	if of, key, ok := splitSubscript(path); ok {
		switch of {
		case "metadata.labels":
			return p.Labels[key], nil
		case "metadata.annotations":
			return p.Annotations[key], nil
		}
		return "", fmt.Errorf("field %q: only metadata.labels and metadata.annotations have keys", path)
	}
	switch path {
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "metadata.labels":
		return formatMap(p.Labels), nil
	case "metadata.annotations":
		return formatMap(p.Annotations), nil
	case "spec.nodeName":
		return facts.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(facts.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(facts.HostIPs, ","), nil
	case "status.podIP":
		return first(facts.PodIPs), nil
	case "status.podIPs":
		return strings.Join(facts.PodIPs, ","), nil
	default:
		return "", fmt.Errorf("field %q is not one that a container can be given", path)
	}
}

// splitSubscript splits a path such as metadata.labels['key'] into metadata.labels and key.
func splitSubscript(path string) (of, key string, ok bool) {
	of, rest, found := strings.Cut(path, "['")
	if !found {
		return "", "", false
	}
	key, closed := strings.CutSuffix(rest, "']")
	if !closed || key == "" {
		return "", "", false
	}
	return of, key, true
}

// formatMap formats labels or annotations as the kubelet does: a key="value" on each line, in the
// order of the keys, the values quoted as Go does.
func formatMap(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(out, "\n")
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}
