package server

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// problem is an answer other than 200: its code, and the text for the user.
type problem struct {
	code int
	text string
}

func problemf(code int, format string, args ...any) *problem {
	return &problem{code: code, text: fmt.Sprintf(format, args...)}
}

// filter chooses pods. An empty field does not matter.
type filter struct {
	namespace string
	name      string
}

func (f filter) matches(p *v1.Pod) bool {
	return (f.namespace == "" || f.namespace == p.Namespace) && (f.name == "" || f.name == p.Name || f.name == manifestName(p))
}

// choose returns the pods that f wants. A pod of exactly the wanted name goes
// before one whose manifest has that name.
func (f filter) choose(pods []*v1.Pod) []*v1.Pod {
	var exact, all []*v1.Pod
	for _, p := range pods {
		if !f.matches(p) {
			continue
		}
		all = append(all, p)
		if p.Name == f.name {
			exact = append(exact, p)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return all
}

// one returns the only pod that f wants.
func (f filter) one(pods []*v1.Pod) (*v1.Pod, *problem) {
	found := f.choose(pods)
	if len(found) == 0 {
		return nil, f.notFound()
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
		return nil, problemf(400, "pod name %q is ambiguous: it may be any of %s; name it in full, with its namespace", f.name, strings.Join(names, ", "))
	}
	return newest, nil
}

func (f filter) notFound() *problem {
	if f.namespace == "" {
		return problemf(404, "pod %q not found", f.name)
	}
	return problemf(404, "pod %q not found in namespace %q", f.name, f.namespace)
}

// manifestName is the name of a static pod as its manifest has it: without the
// node's name at the end.
func manifestName(p *v1.Pod) string {
	if p.Spec.NodeName == "" || !pod.IsStatic(p) {
		return p.Name
	}
	return strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
}
