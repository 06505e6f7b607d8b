// Package manifest turns the bytes of a manifest into pods that berth can run.
//
// Parse reads YAML or JSON, one document or several, each a Pod, a PodList or a
// List of Pods. It decodes strictly, fills in the defaults that an API server
// would fill in, and validates. What is wrong comes back as problems that name
// the line; a bad pod never hides a good one. Static then makes a pod of this
// node out of it: a name, a stable UID and the annotations that users know.
//
// Some fields mean nothing without an API server, and are dropped: the status,
// what a server writes into the metadata, the node name (this node's is used),
// and the service account, of which a machine on its own has none.
//
// The package is pure: it reads no file, no clock and no network. Every name in
// a pod that it returns is safe to be used as part of a path.
package manifest

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/manifest/strict"
	"berth/internal/pod"
)

const (
	maxProblems = 10    // of one pod; more help nobody
	maxObjects  = 5_000 // of one manifest; no node runs more
)

// Result is what a manifest holds.
type Result struct {
	Pods     []*v1.Pod // good ones, in the order of the text
	Problems []Problem // by line
}

// Problem is one mistake in a manifest.
type Problem struct {
	Line    int // counted from 1
	Message string

	// Whose mistake it is. Both are empty if they could not be read, or are not
	// valid themselves.
	Namespace, Name string
}

// Parse reads a manifest.
func Parse(data []byte) Result {
	var r Result
	docs, errs := strict.Documents(data)
	for _, e := range errs {
		r.Problems = append(r.Problems, Problem{Line: e.Line, Message: e.Error()})
	}
	for i, d := range docs {
		if i == maxObjects {
			r.problem(d.Line(), fmt.Sprintf("more than %d documents: the rest is left out", maxObjects))
			break
		}
		r.object(d, false)
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return r
}

// object takes one document by its kind. This is where further kinds come in.
func (r *Result) object(d strict.Document, inList bool) {
	if !d.IsObject() {
		r.problem(d.Line(), "this is not a Kubernetes object: it needs apiVersion, kind and metadata")
		return
	}
	version, kind := d.Text("apiVersion"), d.Text("kind")
	isList := kind == "PodList" || kind == "List"
	switch {
	case kind == "":
		r.problem(d.Line(), "kind is missing: berth takes Pod, PodList")
	case isList && inList:
		r.problem(d.LineOf("kind"), "a list can't hold another list")
	case (isList || kind == "Pod") && version != "v1":
		r.problem(d.LineOf("apiVersion"), fmt.Sprintf("apiVersion of a %s must be v1, but is %q", kind, version))
	case kind == "Pod":
		r.pod(d)
	case isList:
		r.list(d, kind)
	default:
		r.problem(d.LineOf("kind"), fmt.Sprintf("kind %s is not supported here: berth takes Pod, PodList", kind))
	}
}

func (r *Result) problem(line int, message string) {
	r.Problems = append(r.Problems, Problem{Line: line, Message: message})
}

// list takes the items of a list one by one. In a PodList they need not repeat
// their kind.
func (r *Result) list(d strict.Document, kind string) {
	var shell struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta `json:"metadata"`
		Items           strict.Skip     `json:"items"`
	}
	for _, e := range d.Decode(&shell) {
		r.problem(e.Line, e.Error())
	}
	items, ok := d.Items("items")
	if !ok {
		r.problem(d.LineOf("items"), fmt.Sprintf("items: a %s needs a list of pods; an empty one is written []", kind))
	}
	for i, item := range items {
		if i == maxObjects {
			r.problem(item.Line(), fmt.Sprintf("more than %d items: the rest is left out", maxObjects))
			break
		}
		bare := item.IsObject() && item.Text("apiVersion") == "" && item.Text("kind") == ""
		if kind == "PodList" && bare {
			r.pod(item)
		} else {
			r.object(item, true)
		}
	}
}

func (r *Result) pod(d strict.Document) {
	var p v1.Pod
	var found []Problem
	if errs := d.Decode(&p); len(errs) > 0 {
		for _, e := range errs {
			found = append(found, Problem{Line: e.Line, Message: e.Error()})
		}
	} else {
		drop(&p)
		setDefaults(&p)
		for _, e := range validate(&p) {
			found = append(found, Problem{Line: d.LineOf(e.Field), Message: e.Error()})
		}
	}
	if len(found) == 0 {
		r.Pods = append(r.Pods, &p)
		return
	}
	if more := len(found) - maxProblems; more > 0 {
		found = found[:maxProblems]
		found[maxProblems-1].Message += fmt.Sprintf(" (and %d more mistakes)", more)
	}
	namespace, name := identity(d)
	for _, f := range found {
		f.Namespace, f.Name = namespace, name
		r.Problems = append(r.Problems, f)
	}
}

// identity reads whose manifest a bad document is.
func identity(d strict.Document) (namespace, name string) {
	namespace = cmp.Or(d.Text("metadata", "namespace"), metav1.NamespaceDefault)
	name = d.Text("metadata", "name")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", ""
	}
	return namespace, name
}

// drop removes what has no meaning in a manifest. Manifests are often made from
// the output of kubectl get.
func drop(p *v1.Pod) {
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Status = v1.PodStatus{}

	p.ObjectMeta = metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, UID: p.UID, Labels: p.Labels, Annotations: p.Annotations,
		DeletionTimestamp: p.DeletionTimestamp, // for validation to find
	}
	for _, key := range []string{pod.AnnotationSource, pod.AnnotationSeen, pod.AnnotationHash, pod.AnnotationMirror} {
		delete(p.Annotations, key)
	}

	p.Spec.NodeName = ""
	p.Spec.ServiceAccountName = ""
	p.Spec.DeprecatedServiceAccount = ""
	p.Spec.AutomountServiceAccountToken = nil
	p.Spec.SchedulingGates = nil
}
