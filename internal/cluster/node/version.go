package node

import "strings"

// Kubernetes is the version of the kubelet that berth replaces. Schedulers, installers and kubectl
// compare it with that of the API server.
const Kubernetes = "v1.36.3"

// isOurs reports whether a Node with this kubelet version was written by berth, or has no status yet.
func isOurs(version string) bool { return version == "" || strings.Contains(version, "+berth") }

// KubeletVersion returns the kubelet version of the Node: the version of Kubernetes, with
// berth's own as build metadata, which comparisons leave out.
func KubeletVersion(berth string) string {
	own := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		default:
			return '-'
		}
	}, strings.TrimPrefix(berth, "v"))
	// Semantic versions have no empty word between two dots.
	words := strings.FieldsFunc(own, func(r rune) bool { return r == '.' })
	if len(words) == 0 {
		return Kubernetes
	}
	return Kubernetes + "+berth-" + strings.Join(words, ".")
}
