package status

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// ours are the conditions that a node writes. DisruptionTarget is not among them: the program
// that disrupts a pod writes it, and the node only if it is missing.
var ours = []v1.PodConditionType{
	v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
	v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress,
}

// difference returns the fields of a strategic merge patch that turns the status at the API
// server into the desired one: none if they are equal.
//
// Conditions of other programs, and the fields that carry copies, are not in the patch.
// Conditions are merged by their type, so the server keeps all conditions that a patch does not
// name.
func difference(held, want v1.PodStatus) (map[string]any, error) {
	undisturbed := isUndisturbed(held, want)
	want = carry(held, want)
	conditions, err := conditionsPatch(held.Conditions, want.Conditions)
	if err != nil {
		return nil, fmt.Errorf("compare the conditions: %w", err)
	}
	if undisturbed {
		conditions = append(conditions, map[string]any{"$patch": "delete", "type": v1.DisruptionTarget})
	}
	held.Conditions, want.Conditions = nil, nil
	fields, err := fieldsPatch(held, want)
	if err != nil {
		return nil, fmt.Errorf("compare the status with the one that the API server holds: %w", err)
	}
	if len(conditions) > 0 {
		fields["conditions"] = conditions
	}
	replaceAddresses(fields, "podIPs", want.PodIPs)
	replaceAddresses(fields, "hostIPs", want.HostIPs)
	return fields, nil
}

// isUndisturbed reports whether a DisruptionTarget condition of the node itself is out of date: the
// drain that ended the pod was undone, and the mirror pod still has the condition.
func isUndisturbed(held, want v1.PodStatus) bool {
	c := conditionOf(&held, v1.DisruptionTarget)
	return c != nil && c.Reason == v1.PodReasonTerminationByKubelet && !isOver(want.Phase) && conditionOf(&want, v1.DisruptionTarget) == nil
}

// encodePatch encodes the patch of a status. With the UID in it, the API server refuses it for
// another pod of the same name.
func encodePatch(uid types.UID, fields map[string]any) ([]byte, error) {
	out, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   fields,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	return out, nil
}

// carry returns the desired status with the fields of held that other programs write.
func carry(held, want v1.PodStatus) v1.PodStatus {
	want.NominatedNodeName = held.NominatedNodeName
	want.ResourceClaimStatuses = held.ResourceClaimStatuses
	want.ExtendedResourceClaimStatus = held.ExtendedResourceClaimStatus
	want.NodeAllocatableResourceClaimStatuses = held.NodeAllocatableResourceClaimStatuses
	if held.QOSClass != "" {
		want.QOSClass = held.QOSClass // the server computed it, and never changes it
	}
	if want.ObservedGeneration == 0 {
		want.ObservedGeneration = held.ObservedGeneration
	}
	var conditions []v1.PodCondition
	for _, c := range want.Conditions {
		before := conditionOf(&held, c.Type)
		if !slices.Contains(ours, c.Type) && (c.Type != v1.DisruptionTarget || before != nil) {
			continue
		}
		if before != nil && c.ObservedGeneration == 0 {
			c.ObservedGeneration = before.ObservedGeneration
		}
		conditions = append(conditions, c)
	}
	want.Conditions = conditions
	return want
}

// fieldsPatch returns the patch of all fields but the conditions.
func fieldsPatch(held, want v1.PodStatus) (map[string]any, error) {
	heldJSON, err := json.Marshal(held)
	if err != nil {
		return nil, err
	}
	wantJSON, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	raw, err := strategicpatch.CreateTwoWayMergePatch(heldJSON, wantJSON, v1.PodStatus{})
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	return fields, json.Unmarshal(raw, &fields)
}

// conditionsPatch returns our conditions that differ, and a delete directive for each that is no
// longer wanted. The library would also set the order of all conditions, and remove all of them
// when the node has none.
func conditionsPatch(held, want []v1.PodCondition) ([]any, error) {
	var out []any
	for _, c := range want {
		fields, err := asMap(c)
		if err != nil {
			return nil, err
		}
		if before := conditionOf(&v1.PodStatus{Conditions: held}, c.Type); before != nil {
			was, err := asMap(*before)
			if err != nil {
				return nil, err
			}
			if reflect.DeepEqual(was, fields) {
				continue
			}
			for key := range was {
				if _, stays := fields[key]; !stays {
					fields[key] = nil
				}
			}
		}
		out = append(out, fields)
	}
	for _, c := range held {
		stays := conditionOf(&v1.PodStatus{Conditions: want}, c.Type) != nil
		if !stays && slices.Contains(ours, c.Type) {
			out = append(out, map[string]any{"$patch": "delete", "type": c.Type})
		}
	}
	return out, nil
}

// asMap returns a value as it goes over the wire.
func asMap(value any) (map[string]any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}

// replaceAddresses makes a changed list of addresses replace the present one. Lists of addresses
// are merged by default, which would keep addresses that the writer does not know of.
func replaceAddresses[T any](fields map[string]any, list string, want []T) {
	_, changed := fields[list]
	if _, reordered := fields["$setElementOrder/"+list]; !changed && !reordered {
		return
	}
	delete(fields, "$setElementOrder/"+list)
	replaced := []any{map[string]any{"$patch": "replace"}}
	for _, address := range want {
		replaced = append(replaced, address)
	}
	fields[list] = replaced
}

// isOverwritten reports whether the status in the answer to a patch lacks a field of the desired
// status that was not in the patch, because the server was believed to have it. A field that was
// in the patch and is not in the answer does not count: an old server drops fields that it does
// not know.
func isOverwritten(held, want v1.PodStatus, sent map[string]any) bool {
	left, err := difference(held, want)
	return err == nil && !covers(sent, left)
}

// covers reports whether a patch is about everything that another one is about.
func covers(patch, other any) bool {
	switch other := other.(type) {
	case map[string]any:
		fields, ok := patch.(map[string]any)
		if !ok {
			return patch == nil // a whole that was taken away
		}
		for key, value := range other {
			if in, ok := fields[key]; !ok || !covers(in, value) {
				return false
			}
		}
	case []any:
		list, ok := patch.([]any)
		if !ok {
			return patch == nil
		}
		for _, element := range other {
			if !slices.ContainsFunc(list, func(in any) bool { return isAbout(in, element) && covers(in, element) }) {
				return false
			}
		}
	}
	return true
}

// isAbout reports whether two elements of a list are about the same container or
// condition.
func isAbout(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return x["name"] == y["name"] && x["type"] == y["type"]
}

// isUrgent reports whether others wait for this change: whether traffic may go to the
// pod, and where it is.
func isUrgent(held, want v1.PodStatus) bool {
	return isReady(held) != isReady(want) || held.PodIP != want.PodIP
}

func isReady(s v1.PodStatus) bool {
	c := conditionOf(&s, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}
