// Package manifest turns the bytes of a manifest into pods that berth can run, and
// the objects that they refer to: ConfigMaps, Secrets, RuntimeClasses, and
// PersistentVolumes with their claims.
//
// Parse reads YAML or JSON, one document or several, each an object or a list of
// some. It decodes strictly, fills in the defaults that an API server would fill
// in, and validates. What is wrong comes back as problems that name the line; a
// bad object never hides a good one. Static then makes a pod of this node out of
// a Pod: a name, a stable UID and the annotations that users know.
//
// Some fields mean nothing without an API server, and are dropped: the status,
// what a server writes into the metadata, the node name (this node's is used),
// and the service account, of which a machine on its own has none.
//
// The package is pure: it reads no file, no clock and no network. Every name and
// key in what it returns is safe to be used as part of a path. No problem repeats
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
	Digests  []string  // of the text of each of these pods, without defaults; empty: not known
	Objects  []Object  // valid objects that pods refer to, likewise
	Problems []Problem // by line
}

// Object is an object of any kind. It knows its kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// Problem is one mistake in a manifest.
type Problem struct {
	Line    int // counted from 1
	Message string

	// Whose mistake it is. The kind is empty if there is none like it, the others if
	// they could not be read or are not valid themselves. Some kinds have no namespace.
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
			r.problem(d.Line(), fmt.Sprintf("more than %d documents: the rest is left out", maxObjects))
			break
		}
		r.object(d, false)
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return r
}

// Remembered reads an object that berth took in before, perhaps another version of it, and
// wrote down as JSON. The problems are what this version would refuse it for. If there are
// some and the object all the same, every field of it could be read. Its names and keys were
// checked by the version that took it in.
func Remembered(data []byte) (Object, []Problem) {
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
	r.refuse(d, name, found)
	if _, named := identity(d, name); named == "" || o == nil {
		return nil, r.Problems
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(k.version, name))
	return o, r.Problems
}

func (r *Result) problem(line int, message string) {
	r.Problems = append(r.Problems, Problem{Line: line, Message: message})
}

// object takes one document by its kind.
func (r *Result) object(d strict.Document, inList bool) {
	if !d.IsObject() {
		r.problem(d.Line(), "this is not a Kubernetes object: it needs apiVersion, kind and metadata")
		return
	}
	version, name := d.Text("apiVersion"), d.Text("kind")
	if of, isList := listOf(name); isList {
		switch {
		case inList:
			r.problem(d.LineOf("kind"), "a list can't hold another list")
		case version != of.version:
			r.problem(d.LineOf("apiVersion"), wrongVersion(name, of.version, version))
		default:
			r.list(d, of)
		}
		return
	}
	k, known := kinds[name]
	switch {
	case name == "":
		r.problem(d.Line(), "kind is missing: berth takes "+acceptedKinds)
	case known && version != k.version:
		r.refuse(d, name, []Problem{{Line: d.LineOf("apiVersion"), Message: wrongVersion(name, k.version, version)}})
	case known:
		r.read(d, name)
	case isOfCluster(version, name):
		r.refuse(d, name, []Problem{{Line: d.LineOf("kind"), Message: name + " is for a cluster: berth takes " + acceptedKinds}})
	default:
		r.problem(d.LineOf("kind"), fmt.Sprintf("kind %.63s is not known: berth takes %s", name, acceptedKinds))
	}
}

func wrongVersion(kind, want, have string) string {
	return fmt.Sprintf("apiVersion of a %s must be %s, but is %q", kind, want, have)
}

// list takes the items of a list one by one. In a list of one kind they need not
// repeat it.
func (r *Result) list(d strict.Document, of listKind) {
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
		r.problem(d.LineOf("items"), fmt.Sprintf("items: a %sList needs a list of objects; an empty one is written []", of.item))
	}
	for i, item := range items {
		if i == maxObjects {
			r.problem(item.Line(), fmt.Sprintf("more than %d items: the rest is left out", maxObjects))
			break
		}
		bare := item.IsObject() && item.Text("apiVersion") == "" && item.Text("kind") == ""
		if of.item != "" && bare {
			r.read(item, of.item)
		} else {
			r.object(item, true)
		}
	}
}

// read takes a document of a kind that is known.
func (r *Result) read(d strict.Document, kind string) {
	k := kinds[kind]
	o, found := k.read(d)
	if len(found) > 0 {
		r.refuse(d, kind, found)
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

// refuse notes what is wrong with an object.
func (r *Result) refuse(d strict.Document, kind string, found []Problem) {
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
