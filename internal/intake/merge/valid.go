package merge

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// problem says why a pod can't be taken in, or nothing. The API server and the
// manifest reader check a pod much more closely; here stands what the rest of
// berth relies on.
func problem(p *v1.Pod, static bool) string {
	switch {
	case p.Name == "":
		return "the pod has no name: set metadata.name"
	case p.Namespace == "":
		return "the pod has no namespace: set metadata.namespace"
	case p.UID == "":
		return "the pod has no UID"
	case len(p.Spec.Containers) == 0:
		return "the pod has no containers: list at least one in spec.containers"
	}
	for _, part := range []struct{ field, value string }{
		{"metadata.name", p.Name},
		{"metadata.namespace", p.Namespace},
		{"metadata.uid", string(p.UID)},
	} {
		if !safeInPath(part.value) {
			return fmt.Sprintf("%s %.64q can't be part of a path: use at most %d letters, digits, '-', '_' and '.', and begin with a letter or digit",
				part.field, part.value, maxPathPart)
		}
	}
	if static && pod.IsMirror(p) {
		return fmt.Sprintf("the annotation %s marks the API server's copy of a static pod, which never runs: remove it",
			pod.AnnotationMirror)
	}
	return ""
}

// maxPathPart is the longest name that Kubernetes allows for a pod.
const maxPathPart = 253

// safeInPath reports whether s may stand in the name of a file, a cgroup or a
// container without leading anywhere else.
func safeInPath(s string) bool {
	if s == "" || len(s) > maxPathPart {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}
