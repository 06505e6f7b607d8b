// Package find finds the pod and the container that a user means, by the name of the pod or of
// its manifest. Both ends of the local API use it: the server for logs, and the client
// for a node that only lists its pods. It is pure.
package find

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Error is the error of a search, for users.
type Error struct {
	Missing bool // nothing matches; false: several things match
	text    string
}

// Error implements error.
func (e *Error) Error() string { return e.text }

func missing(format string, args ...any) *Error {
	return &Error{Missing: true, text: fmt.Sprintf(format, args...)}
}

// Filter chooses pods. An empty field matches all pods.
type Filter struct {
	Namespace string
	Name      string // of the pod, or of its manifest
}

// Matches reports whether p has the namespace and the name of f.
func (f Filter) Matches(p *v1.Pod) bool {
	return (f.Namespace == "" || f.Namespace == p.Namespace) && (f.Name == "" || f.Name == p.Name || f.Name == ManifestName(p))
}

// Choose returns the pods that f matches. A pod of exactly the wanted name goes
// before one whose manifest has that name.
func (f Filter) Choose(pods []*v1.Pod) []*v1.Pod {
	var exact, all []*v1.Pod
	for _, p := range pods {
		if !f.Matches(p) {
			continue
		}
		all = append(all, p)
		if f.Name != "" && p.Name == f.Name {
			exact = append(exact, p)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return all
}

// One returns the pod that Choose finds: the newest, if several have the same namespace and name. It is
// an error if their names differ.
func (f Filter) One(pods []*v1.Pod) (*v1.Pod, *Error) {
	found := f.Choose(pods)
	if len(found) == 0 {
		return nil, f.NotFound()
	}
	newest := found[0]
	refs := map[string]bool{}
	for _, p := range found {
		refs[pod.Ref(p)] = true
		// While a pod is being replaced, two have its name.
		if pod.Created(p).After(pod.Created(newest)) {
			newest = p
		}
	}
	if len(refs) > 1 {
		names := make([]string, 0, len(refs))
		for r := range refs {
			names = append(names, r)
		}
		slices.Sort(names)
		return nil, &Error{text: fmt.Sprintf("pod name %q is ambiguous: it may be any of %s; name it in full, with its namespace", f.Name, strings.Join(names, ", "))}
	}
	return newest, nil
}

// NotFound returns the error that no pod matches f.
func (f Filter) NotFound() *Error {
	if f.Namespace == "" {
		return missing("pod %q not found", f.Name)
	}
	return missing("pod %q not found in namespace %q", f.Name, f.Namespace)
}

// ManifestName returns the name of a static pod in its manifest: without the node's name at the end.
func ManifestName(p *v1.Pod) string {
	if p.Spec.NodeName == "" || !pod.IsStatic(p) {
		return p.Name
	}
	return strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
}
