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

	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/manifest"
	"berth/internal/pod"
)

// MaxManifest is how many bytes a manifest may have.
const MaxManifest = 10 << 20

// object is a pod, or something that pods refer to.
type object = manifest.Object

// intake turns manifests into pods of this node and what they refer to.
type intake struct {
	node   string
	source string
}

// take reads a manifest of which last are the objects that were in force so far.
// It returns those that are in force now, and what was refused.
func (in intake) take(origin string, data []byte, last []object) ([]object, []pod.Refusal) {
	if len(bytes.TrimSpace(data)) == 0 {
		// Most likely it is being written. Who wants the pods gone removes it.
		return last, in.refuseAll(origin, "the manifest is empty: remove it if its pods are to go", last)
	}
	result := manifest.Parse(data)
	problems := result.Problems
	good := result.Objects
	for _, p := range result.Pods {
		static, err := manifest.Static(p, in.node, in.source, origin)
		if err != nil {
			problems = append(problems, manifest.Problem{Kind: kindOf(p), Namespace: p.Namespace, Name: p.Name, Message: err.Error()})
			continue
		}
		good = append(good, static)
	}
	return in.keep(origin, good, problems, last)
}

// keep adds to the good objects of a manifest the last good versions of those that
// were refused: by kind and name, or where these can't be read, all that are left.
func (in intake) keep(origin string, good []object, problems []manifest.Problem, last []object) ([]object, []pod.Refusal) {
	held := slices.Clone(good)
	var refusals []pod.Refusal
	spare := slices.DeleteFunc(slices.Clone(last), func(o object) bool { return contains(good, o) })
	for _, problem := range problems {
		ref := in.ref(problem)
		kept := false
		for _, o := range spare {
			if problem.Kind != "" && problem.Kind != kindOf(o) || ref != "" && ref != refOf(o) {
				continue
			}
			kept = true
			if !contains(held, o) {
				held = append(held, o)
			}
		}
		refusal := pod.Refusal{Source: in.source, Origin: origin, Line: problem.Line, Message: problem.Message, Kept: kept}
		if problem.Kind == kindPod {
			refusal.Pod = ref
		} else {
			refusal.Object = strings.TrimSpace(problem.Kind + " " + ref)
		}
		refusals = append(refusals, refusal)
	}
	return held, refusals
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
func contains(list []object, o object) bool {
	return slices.ContainsFunc(list, func(other object) bool { return kindOf(other) == kindOf(o) && refOf(other) == refOf(o) })
}

// refuseAll is the refusal of a manifest as a whole.
func (in intake) refuseAll(origin, message string, last []object) []pod.Refusal {
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
		log.Warn(what, "why", err)
	}
	f.on = true
}

func (f *fault) end(log *slog.Logger, what string) {
	if f.on {
		log.Info(what)
	}
	f.on = false
}
