// Package source brings in the pods of this node: from a folder of manifests
// (File), from a URL (HTTP) and from an API server (API).
//
// A source sends snapshots: all of its pods, each time anew, when something
// changed. Its promise is that a mistake never takes a running pod down:
//
//   - A manifest that can't be read or is wrong leaves the last good version of
//     its pods in the snapshot, and a pod.Refusal beside them that says why.
//   - A folder that is gone or unreadable, or a URL that fails, removes nothing.
//   - What was good is written to a state file before it is sent, so all of that
//     also holds if the agent is restarted meanwhile. At start the source sends
//     it as a pod.Restore, ahead of its first real snapshot.
//
// Refusals travel in the snapshots, and whoever receives them logs them. A source
// logs only what is in no snapshot, once when it begins and once when it ends.
//
// A source is one goroutine, which owns all of its state: the caller's, in Run.
package source

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/manifest"
	"berth/internal/pod"
)

// maxManifest is how many bytes a manifest may have.
const maxManifest = 10 << 20

// intake turns manifests into pods of this node.
type intake struct {
	node   string
	source string
}

// take reads a manifest of which last are the pods that were in force so far.
// It returns those that are in force now, and what was refused.
func (in intake) take(origin string, data []byte, last []*v1.Pod) ([]*v1.Pod, []pod.Refusal) {
	if len(bytes.TrimSpace(data)) == 0 {
		// Most likely it is being written. Who wants the pods gone removes it.
		return last, in.refuseAll(origin, "the manifest is empty: remove it if its pods are to go", last)
	}
	result := manifest.Parse(data)
	problems := result.Problems
	var pods []*v1.Pod
	for _, p := range result.Pods {
		static, err := manifest.Static(p, in.node, in.source, origin)
		if err != nil {
			problems = append(problems, manifest.Problem{Namespace: p.Namespace, Name: p.Name, Message: err.Error()})
			continue
		}
		pods = append(pods, static)
	}
	return in.keep(origin, pods, problems, last)
}

// keep adds to the good pods of a manifest the last good versions of those that
// were refused: by name, or if that can't be read, all that are left.
func (in intake) keep(origin string, good []*v1.Pod, problems []manifest.Problem, last []*v1.Pod) ([]*v1.Pod, []pod.Refusal) {
	pods := slices.Clone(good)
	var refusals []pod.Refusal
	spare := slices.DeleteFunc(slices.Clone(last), func(p *v1.Pod) bool { return containsRef(good, pod.Ref(p)) })
	for _, problem := range problems {
		ref := in.ref(problem)
		kept := false
		for _, p := range spare {
			if ref != "" && ref != pod.Ref(p) {
				continue
			}
			kept = true
			if !containsRef(pods, pod.Ref(p)) {
				pods = append(pods, p)
			}
		}
		refusals = append(refusals, pod.Refusal{
			Source: in.source, Origin: origin, Line: problem.Line, Pod: ref, Message: problem.Message, Kept: kept,
		})
	}
	return pods, refusals
}

// ref names the pod of a problem as it is named on this node.
func (in intake) ref(p manifest.Problem) string {
	if p.Name == "" {
		return ""
	}
	return p.Namespace + "/" + manifest.StaticName(p.Name, in.node)
}

func containsRef(pods []*v1.Pod, ref string) bool {
	return slices.ContainsFunc(pods, func(p *v1.Pod) bool { return pod.Ref(p) == ref })
}

// refuseAll is the refusal of a manifest as a whole.
func (in intake) refuseAll(origin, message string, last []*v1.Pod) []pod.Refusal {
	return []pod.Refusal{{Source: in.source, Origin: origin, Message: message, Kept: len(last) > 0}}
}

// sender sends snapshots that differ from the one before.
type sender struct {
	out  chan<- pod.Snapshot
	last *pod.Snapshot
}

// knows tells whether a snapshot says nothing new.
func (s *sender) knows(snapshot pod.Snapshot) bool {
	return s.last != nil && s.last.Op == snapshot.Op && slices.Equal(s.last.Refused, snapshot.Refused) &&
		equality.Semantic.DeepEqual(s.last.Pods, snapshot.Pods)
}

// send returns false if the context ended first.
func (s *sender) send(ctx context.Context, snapshot pod.Snapshot) bool {
	if s.knows(snapshot) {
		return true
	}
	select {
	case s.out <- snapshot:
		s.last = &snapshot
		return true
	case <-ctx.Done():
		return false
	}
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
