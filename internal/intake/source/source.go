// Package source brings in the pods of this node: from a folder of manifests
// (File), from a URL (HTTP) and from an API server (API). Manifests also hold the
// objects that pods refer to, such as ConfigMaps.
//
// A source sends snapshots: all of its pods, each time anew, when something
// changed. The other objects are sent before the pods that may refer to them, all of
// them each time, too. The promise of a source is that a mistake never takes a running
// pod down:
//
//   - A manifest that can't be read or is wrong leaves the last good version of
//     its pods and objects in force, and a pod.Refusal in the snapshot that says why.
//   - A file that is open for writing is left alone until it is closed: the beginning of
//     a manifest is often a good manifest, of another pod.
//   - A folder that is gone or unreadable, or a URL that fails, removes nothing.
//   - An accepted manifest stays accepted: a version of berth that fills in other defaults,
//     or refuses a manifest that an earlier version accepted, replaces and ends no pod whose
//     manifest is the same. A pod that it can't even read goes on untouched (pod.Refusal.UID).
//   - Accepted objects are written to a state file before they are sent, so all of that
//     also holds if the agent is restarted meanwhile. At start the source sends their
//     pods as a pod.Restore, ahead of its first real snapshot. There may be Secrets in
//     the state file: only root can read it.
//
// Refusals travel in the snapshots, and the receiver logs them. A source logs only
// faults that are in no snapshot, once when they begin and once when they end.
//
// A source is one goroutine, which owns all of its state: the caller's, in Run.
package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/intake/manifest"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
)

// MaxManifest is the largest size of a manifest, in bytes.
const MaxManifest = 10 << 20

// object is a pod, or an object that pods refer to.
type object = manifest.Object

// acceptedObject is an object that is in force, with the digest of its manifest. An object
// that this version of berth can't read is an *unstructured.Unstructured.
type acceptedObject struct {
	object
	digest string // of a pod; empty: not known
}

// unreadable reports whether this version of berth can't read an object that another version
// accepted.
func (h acceptedObject) unreadable() bool {
	_, yes := h.object.(*unstructured.Unstructured)
	return yes
}

// intake turns manifests into static pods of this node and the objects that they refer to.
type intake struct {
	node   string
	source string
}

// ingest reads a manifest. last are its objects that were in force so far. It returns the
// objects that are in force now, and the refusals.
func (in intake) ingest(origin string, data []byte, last []acceptedObject) ([]acceptedObject, []pod.Refusal) {
	good, problems := in.read(origin, data, last)
	return in.keep(origin, good, problems, last)
}

// read parses a manifest. It returns the good objects, and the problems with the others.
func (in intake) read(origin string, data []byte, last []acceptedObject) ([]acceptedObject, []manifest.Problem) {
	if len(bytes.TrimSpace(data)) == 0 {
		// Most likely it is being written. To end its pods, users remove the file.
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

// sameAs returns the last accepted version of a pod if its manifest has the same digest.
// This version of berth may fill in other defaults than the version that accepted it, and
// a pod whose manifest was not edited must not be replaced for that.
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
// were refused: by kind and name, or all others of the manifest where these can't be read.
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

// ref returns the namespace and name of the object of a problem. A pod's name has the
// node's name in it.
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

// contains reports whether a list has an object of the same kind and name.
func contains(list []acceptedObject, h acceptedObject) bool {
	return slices.ContainsFunc(list, func(other acceptedObject) bool { return same(other, h) })
}

// same reports whether two objects have the same kind and name.
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

// fault is a failure that lasts for a while. It is logged when it begins and when it
// ends.
type fault struct{ streak logonce.Streak }

func (f *fault) begin(log *slog.Logger, what string, err error) {
	if f.streak.Failed(time.Now()) {
		log.Warn(what, "err", err)
	}
}

func (f *fault) end(log *slog.Logger, what string) {
	if f.streak.Recovered() {
		log.Info(what)
	}
}
