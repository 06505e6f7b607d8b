// Package downward reads what a container may know of its own pod: the values behind
// fieldRef and resourceFieldRef, whether they end up in a variable or in a file of
// a downwardAPI volume.
//
// It is pure. What is known only on the machine (addresses, what the node has to
// give) is handed in.
package downward

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Facts are what the spec of a pod does not say about it.
type Facts struct {
	NodeName string
	HostIPs  []string // the first is the one that the node goes by
	PodIPs   []string // empty until the pod has its network
}

// Value returns what a fieldRef with that path stands for. A label or annotation
// that is not there, and an address that is not known yet, are empty; a path that
// nobody knows is an error.
func Value(p *v1.Pod, path string, facts Facts) (string, error) {
	if of, key, ok := subscript(path); ok {
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
		return lines(p.Labels), nil
	case "metadata.annotations":
		return lines(p.Annotations), nil
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

// subscript takes metadata.labels['key'] apart.
func subscript(path string) (of, key string, ok bool) {
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

// lines writes a map as programs in containers expect it: a key="value" on each
// line, in the order of the keys, the values quoted as Go does.
func lines(m map[string]string) string {
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
