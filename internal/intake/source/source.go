// Package source brings in the pods of this node: from a folder of manifests
// (File), from a URL (HTTP) and from an API server (API). Manifests also hold the
// objects that pods refer to, such as ConfigMaps.
//
// A source sends snapshots: all of its pods, each time anew, when something
// changed. The other objects it hands on before the pods that may refer to them, all
// of them each time, too. Its promise is that a mistake never takes a running pod
// down:
//
//   - A manifest that can't be read or is wrong leaves the last good version of
//     its pods and objects in force, and a pod.Refusal in the snapshot that says why.
//   - A file that somebody has open for writing is left alone until it is closed: the
//     beginning of a manifest is often a good one, of another pod.
//   - A folder that is gone or unreadable, or a URL that fails, removes nothing.
//   - What was good stays good: a version of berth that fills in other defaults, or refuses
//     what an earlier one took in, replaces and ends no pod whose manifest is the same. A
//     pod that it can't even read goes on untouched (pod.Refusal.UID).
//   - What was good is written to a state file before it is sent, so all of that
//     also holds if the agent is restarted meanwhile. At start the source sends
//     it as a pod.Restore, ahead of its first real snapshot. There may be Secrets in
//     that file: nobody but root can read it.
//
// Refusals travel in the snapshots, and whoever receives them logs them. A source
// logs only what is in no snapshot, once when it begins and once when it ends.
//
// A source is one goroutine, which owns all of its state: the caller's, in Run.
package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/intake/manifest"
	"berth/internal/lib/pod"
)

// MaxManifest is how many bytes a manifest may have.
const MaxManifest = 10 << 20

// object is a pod, or something that pods refer to.
type object = manifest.Object

// acceptedObject is an object as it is in force, and the digest of what its manifest says. An
// unreadable one is an *unstructured.Unstructured.
type acceptedObject struct {
	object
	digest string // of a pod; empty: not known
}

// unreadable tells whether this version of berth can't read an object that another one
// took in.
func (h acceptedObject) unreadable() bool {
	_, yes := h.object.(*unstructured.Unstructured)
	return yes
}

// intake turns manifests into pods of this node and what they refer to.
type intake struct {
	node   string
	source string
}

// ingest reads a manifest of which last are the objects that were in force so far.
// It returns those that are in force now, and what was refused.
func (in intake) ingest(origin string, data []byte, last []acceptedObject) ([]acceptedObject, []pod.Refusal) {
	good, problems := in.read(origin, data, last)
	return in.keep(origin, good, problems, last)
}

// read reads a manifest: what is good in it, and what is wrong.
func (in intake) read(origin string, data []byte, last []acceptedObject) ([]acceptedObject, []manifest.Problem) {
	if len(bytes.TrimSpace(data)) == 0 {
		// Most likely it is being written. Who wants the pods gone removes it.
		return nil, []manifest.Problem{{Message: "the manifest is empty: remove it if its pods are to go"}}
	}
	result := manifest.Parse(data)
	problems := result.Problems
	var good []acceptedObject
	for _, o := range result.Objects {
		good = append(good, acceptedObject{object: o})
	}
	for i, p := range result.Pods {
		static, err := manifest.Static(p, in.node, in.source, origin)
		if err != nil {
			problems = append(problems, manifest.Problem{Kind: kindOf(p), Namespace: p.Namespace, Name: p.Name, Message: err.Error()})
			continue
		}
		good = append(good, sameAs(last, acceptedObject{static, result.Digests[i]}))
	}
	return good, problems
}

// sameAs returns a pod as it was, if its manifest says the same as then. This version of
// berth may fill in other defaults than the one that took it in, and a pod that nobody
// edited must not be replaced for that.
func sameAs(last []acceptedObject, is acceptedObject) acceptedObject {
	i := slices.IndexFunc(last, func(h acceptedObject) bool { return same(h, is) })
	if i < 0 || is.digest == "" || last[i].digest != is.digest {
		return is
	}
	was := last[i]
	if !was.unreadable() {
		return was
	}
	if p, isPod := is.object.(*v1.Pod); isPod && was.GetUID() != "" {
		p.UID = was.GetUID()
		p.Annotations[pod.AnnotationHash] = string(p.UID)
	}
	return is
}

// keep adds to the good objects of a manifest the last good versions of those that
// were refused: by kind and name, or where these can't be read, all that are left.
func (in intake) keep(origin string, good []acceptedObject, problems []manifest.Problem, last []acceptedObject) ([]acceptedObject, []pod.Refusal) {
	inForce := slices.Clone(good)
	var refusals []pod.Refusal
	spare := slices.DeleteFunc(slices.Clone(last), func(h acceptedObject) bool { return contains(good, h) })
	for _, problem := range problems {
		ref := in.ref(problem)
		kept := false
		for _, o := range spare {
			if problem.Kind != "" && problem.Kind != kindOf(o) || ref != "" && ref != refOf(o) {
				continue
			}
			kept = true
			if !contains(inForce, o) {
				inForce = append(inForce, o)
			}
		}
		refusals = append(refusals, in.refuse(origin, problem, ref, kept))
	}
	return inForce, refusals
}

// refuse is the refusal of one object of a manifest.
func (in intake) refuse(origin string, problem manifest.Problem, ref string, kept bool) pod.Refusal {
	r := pod.Refusal{Source: in.source, Origin: origin, Line: problem.Line, Message: problem.Message, Kept: kept}
	if problem.Kind == kindPod {
		r.Pod = ref
	} else {
		r.Object = strings.TrimSpace(problem.Kind + " " + ref)
	}
	return r
}

const kindPod = "Pod"

// ref names what a problem is about, as it is named on this node.
func (in intake) ref(p manifest.Problem) string {
	switch {
	case p.Name == "":
		return ""
	case p.Kind == kindPod:
		return p.Namespace + "/" + manifest.StaticName(p.Name, in.node)
	default:
		return join(p.Namespace, p.Name)
	}
}

func kindOf(o object) string { return o.GetObjectKind().GroupVersionKind().Kind }

func refOf(o object) string { return join(o.GetNamespace(), o.GetName()) }

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// contains tells whether an object of the same kind and name is in a list.
func contains(list []acceptedObject, h acceptedObject) bool {
	return slices.ContainsFunc(list, func(other acceptedObject) bool { return same(other, h) })
}

// same tells whether two objects have the same kind and name.
func same(a, b object) bool { return kindOf(a) == kindOf(b) && refOf(a) == refOf(b) }

// refuseAll is the refusal of a manifest as a whole.
func (in intake) refuseAll(origin, message string, last []acceptedObject) []pod.Refusal {
	return []pod.Refusal{{Source: in.source, Origin: origin, Message: message, Kept: len(last) > 0}}
}

// checkNode refuses a node name that pods can't be named after.
func checkNode(node string) error {
	if wrong := validation.IsDNS1123Subdomain(strings.ToLower(node)); len(wrong) > 0 {
		return fmt.Errorf("the node name %q is no DNS name: %s", node, wrong[0])
	}
	return nil
}

// fault is something that is wrong for a while. It is logged when it begins and
// when it ends.
type fault struct{ on bool }

func (f *fault) begin(log *slog.Logger, what string, err error) {
	if !f.on {
		log.Warn(what, "err", err)
	}
	f.on = true
}

func (f *fault) end(log *slog.Logger, what string) {
	if f.on {
		log.Info(what)
	}
	f.on = false
}
