package node

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Patches are strategic merges. Each names the UID, so that a Node which was
// deleted and created again by another program is noticed and not written over.

// replace, in a list of a patch, makes the list replace the present one. In an object it can't
// be used: API servers drop an object that was not there before.
const (
	directive = "$patch"
	replace   = "replace"
)

type object = map[string]any

// statusPatch returns the patch that changes the status of shown into want. Our conditions are
// in it in full even if they are equal, which overrules a program that has changed them since
// shown was read. All other fields are in it only if they differ.
func statusPatch(shown *v1.Node, want *v1.NodeStatus) ([]byte, error) {
	have := &shown.Status
	status := object{"conditions": ours(want.Conditions)}
	if !same(have.Capacity, want.Capacity) {
		status["capacity"] = resources(have.Capacity, want.Capacity)
	}
	if !same(have.Allocatable, want.Allocatable) {
		status["allocatable"] = resources(have.Allocatable, want.Allocatable)
	}
	if !same(have.Addresses, want.Addresses) {
		// Merged, two addresses of one type would become one.
		list := []any{object{directive: replace}}
		for _, a := range want.Addresses {
			list = append(list, a)
		}
		status["addresses"] = list
	}
	if !same(have.DaemonEndpoints, want.DaemonEndpoints) {
		status["daemonEndpoints"] = want.DaemonEndpoints
	}
	if !same(have.Images, want.Images) {
		status["images"] = want.Images // nil removes them
	}
	if !same(have.VolumesInUse, want.VolumesInUse) {
		status["volumesInUse"] = want.VolumesInUse
	}
	if !same(have.RuntimeHandlers, want.RuntimeHandlers) {
		status["runtimeHandlers"] = want.RuntimeHandlers
	}
	if !same(have.DeclaredFeatures, want.DeclaredFeatures) {
		status["declaredFeatures"] = want.DeclaredFeatures
	}
	if !same(have.NodeInfo, want.NodeInfo) {
		info, err := whole(want.NodeInfo, "swap")
		if err != nil {
			return nil, err
		}
		status["nodeInfo"] = info
	}
	if !same(have.Features, want.Features) {
		status["features"] = nil
		if want.Features != nil {
			features, err := whole(want.Features, "supplementalGroupsPolicy")
			if err != nil {
				return nil, err
			}
			status["features"] = features
		}
	}
	return encode(object{"metadata": object{"uid": shown.UID}, "status": status})
}

// whole encodes a value with all of its fields, so that a merge keeps nothing of the present
// one. The optional field is null if the value has none.
func whole(value any, optional string) (object, error) {
	text, err := encode(value)
	if err != nil {
		return nil, err
	}
	out := object{optional: nil}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("make a patch of the node: %w", err)
	}
	return out, nil
}

// resources returns the entries that differ, and null for each entry to be removed. A resource
// that another program announced is not repeated: it may have been changed since.
func resources(have, want v1.ResourceList) object {
	out := object{}
	for name := range have {
		if _, wanted := want[name]; !wanted {
			out[string(name)] = nil
		}
	}
	for name, q := range want {
		if was, shown := have[name]; !shown || was.Cmp(q) != 0 {
			out[string(name)] = q
		}
	}
	return out
}

// metadataPatch returns the patch that sets our labels and annotations on a Node that exists. It
// is nil if they are set.
func metadataPatch(shown, built *v1.Node) ([]byte, error) {
	labels, annotations := map[string]string{}, map[string]*string{}
	for _, key := range kept {
		if value, given := built.Labels[key]; given && shown.Labels[key] != value {
			labels[key] = value
		}
	}
	for key, value := range built.Annotations {
		if shown.Annotations[key] != value {
			annotations[key] = &value
		}
	}
	if _, wanted := built.Annotations[providedIPsAnnotation]; !wanted {
		if _, stale := shown.Annotations[providedIPsAnnotation]; stale {
			annotations[providedIPsAnnotation] = nil // null removes it
		}
	}
	if len(labels) == 0 && len(annotations) == 0 {
		return nil, nil
	}
	return encode(object{"metadata": object{"uid": shown.UID, "labels": labels, "annotations": annotations}})
}

func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("make a patch of the node: %w", err)
	}
	return text, nil
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// sameStatus reports whether two statuses are equal but for their heartbeat times.
func sameStatus(a, b v1.NodeStatus) bool { return same(timeless(a), timeless(b)) }

func timeless(s v1.NodeStatus) v1.NodeStatus {
	s.Conditions = append([]v1.NodeCondition(nil), s.Conditions...)
	for i := range s.Conditions {
		s.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return s
}

// isUrgent reports whether a difference matters to a scheduler, or to a pod that waits for it. An
// image more or less does not.
func isUrgent(have, want v1.NodeStatus) bool {
	return !same(have.Capacity, want.Capacity) || !same(have.Allocatable, want.Allocatable) ||
		!same(have.Addresses, want.Addresses) || !same(have.NodeInfo, want.NodeInfo) ||
		!same(have.VolumesInUse, want.VolumesInUse) ||
		len(transitions(have.Conditions, want.Conditions)) > 0
}
