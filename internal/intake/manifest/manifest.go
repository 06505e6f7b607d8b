// Package manifest decodes manifests: pods, and the objects that pods refer to
// (ConfigMaps, Secrets, RuntimeClasses, PersistentVolumes and their claims).
//
// Parse reads YAML or JSON, one document or several, each an object or a list of
// objects. It decodes strictly, sets the defaults that an API server would set,
// and validates. Each mistake is a Problem that names the line; an invalid object
// does not affect the others. Static then makes a pod of this node out of a Pod:
// it sets a name, a stable UID and the annotations that users know.
//
// Some fields mean nothing without an API server, and are dropped: the status,
// metadata that a server writes, the node name (this node's is used), and the
// service account, since a standalone machine has none.
//
// The package is pure: it reads no file, no clock and no network. Every name and
// key of the objects that it returns is safe as part of a path. No problem repeats
// the content of a Secret.
package manifest

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/intake/manifest/strict"
)

const (
	maxProblems = 10    // of one object; more would not help
	maxObjects  = 5_000 // of one manifest; no node runs more
)

// Result are the objects of a manifest, and the problems with it.
type Result struct {
	Pods     []*v1.Pod // valid pods, in the order of the text
	Digests  []string  // of the document of each pod in Pods, without defaults; empty: not known
	Objects  []Object  // valid objects of other kinds, in the order of the text
	Problems []Problem // sorted by line
}

// Object is an object of any kind, with its kind set.
type Object interface {
	metav1.Object
	runtime.Object
}

// Problem is one mistake in a manifest.
type Problem struct {
	Line    int // counted from 1
	Message string

	// Kind, Namespace and Name are of the object with the mistake. Kind is empty if the kind is
	// unknown, Namespace and Name if they can't be read or are not valid themselves. Some kinds
	// have no namespace.
	Kind, Namespace, Name string
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
			r.addProblem(d.Line(), fmt.Sprintf("more than %d documents: the rest is left out", maxObjects))
			break
		}
		r.addDocument(d, false)
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return r
}

// ParseStored parses an object of a state file, as JSON, that berth has accepted before, perhaps
// another version of berth. The problems are those for which this version would refuse it. If it
// returns problems and an object, every field of the object could be read; its names and keys were
// validated by the version that accepted it.
func ParseStored(data []byte) (Object, []Problem) {
	docs, errs := strict.Documents(data)
	for _, e := range errs {
		return nil, []Problem{{Line: e.Line, Message: e.Error()}}
	}
	if len(docs) != 1 || !docs[0].IsObject() {
		return nil, []Problem{{Line: 1, Message: "this is not a Kubernetes object"}}
	}
	d := docs[0]
	version, name := d.Text("apiVersion"), d.Text("kind")
	k, known := kinds[name]
	switch {
	case !known:
		return nil, []Problem{{Line: 1, Message: fmt.Sprintf("kind %.63s is not known: berth takes %s", name, acceptedKinds)}}
	case version != k.version:
		return nil, []Problem{{Line: 1, Message: wrongVersion(name, k.version, version)}}
	}
	o, found := k.read(d)
	var r Result
	r.addProblems(d, name, found)
	if _, named := identity(d, name); named == "" || o == nil {
		return nil, r.Problems
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(k.version, name))
	return o, r.Problems
}

func (r *Result) addProblem(line int, message string) {
	r.Problems = append(r.Problems, Problem{Line: line, Message: message})
}

// addDocument decodes one document by its kind.
func (r *Result) addDocument(d strict.Document, inList bool) {
	if !d.IsObject() {
		r.addProblem(d.Line(), "this is not a Kubernetes object: it needs apiVersion, kind and metadata")
		return
	}
	version, name := d.Text("apiVersion"), d.Text("kind")
	if of, isList := parseListKind(name); isList {
		switch {
		case inList:
			r.addProblem(d.LineOf("kind"), "a list can't hold another list")
		case version != of.version:
			r.addProblem(d.LineOf("apiVersion"), wrongVersion(name, of.version, version))
		default:
			r.addList(d, of)
		}
		return
	}
	k, known := kinds[name]
	switch {
	case name == "":
		r.addProblem(d.Line(), "kind is missing: berth takes "+acceptedKinds)
	case known && version != k.version:
		r.addProblems(d, name, []Problem{{Line: d.LineOf("apiVersion"), Message: wrongVersion(name, k.version, version)}})
	case known:
		r.addObject(d, name)
	case isClusterKind(version, name):
		r.addProblems(d, name, []Problem{{Line: d.LineOf("kind"), Message: name + " is for a cluster: berth takes " + acceptedKinds}})
	default:
		r.addProblem(d.LineOf("kind"), fmt.Sprintf("kind %.63s is not known: berth takes %s", name, acceptedKinds))
	}
}

func wrongVersion(kind, want, have string) string {
	return fmt.Sprintf("apiVersion of a %s must be %s, but is %q", kind, want, have)
}

// addList decodes the items of a list one by one. Items of a list of one kind need not repeat
// apiVersion and kind.
func (r *Result) addList(d strict.Document, of listKind) {
	var shell struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta `json:"metadata"`
		Items           strict.Skip     `json:"items"`
	}
	for _, e := range d.Decode(&shell) {
		r.addProblem(e.Line, e.Error())
	}
	items, ok := d.Items("items")
	if !ok {
		r.addProblem(d.LineOf("items"), fmt.Sprintf("items: a %sList needs a list of objects; an empty one is written []", of.item))
	}
	for i, item := range items {
		if i == maxObjects {
			r.addProblem(item.Line(), fmt.Sprintf("more than %d items: the rest is left out", maxObjects))
			break
		}
		bare := item.IsObject() && item.Text("apiVersion") == "" && item.Text("kind") == ""
		if of.item != "" && bare {
			r.addObject(item, of.item)
		} else {
			r.addDocument(item, true)
		}
	}
}

// addObject decodes a document of a known kind, and adds its object or its problems.
func (r *Result) addObject(d strict.Document, kind string) {
	k := kinds[kind]
	o, found := k.read(d)
	if len(found) > 0 {
		r.addProblems(d, kind, found)
		return
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(k.version, kind))
	if p, isPod := o.(*v1.Pod); isPod {
		r.Pods = append(r.Pods, p)
		r.Digests = append(r.Digests, d.Digest())
	} else {
		r.Objects = append(r.Objects, o)
	}
}

// addProblems adds the problems of an object, maxProblems at most.
func (r *Result) addProblems(d strict.Document, kind string, found []Problem) {
	if more := len(found) - maxProblems; more > 0 {
		found = found[:maxProblems]
		found[maxProblems-1].Message += fmt.Sprintf(" (and %d more mistakes)", more)
	}
	namespace, name := identity(d, kind)
	for _, f := range found {
		f.Kind, f.Namespace, f.Name = kind, namespace, name
		r.Problems = append(r.Problems, f)
	}
}
