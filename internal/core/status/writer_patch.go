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

// ours are the conditions that a node writes. DisruptionTarget is not among them:
// whoever disturbs a pod writes it, and the node only if nobody did.
var ours = []v1.PodConditionType{
	v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
	v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress,
}

// difference is what turns the status that the API server holds into the one that we
// want, as the fields of a strategic merge patch: none if it says that already.
//
// What others write stays out of it: their conditions, and the fields that carry
// takes over. Conditions are merged by their type, so the server keeps those that
// a patch does not name.
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

// isUndisturbed tells whether a pod lives on that the node itself was said to disturb: the
// drain that ended it was undone, and its mirror is the one that it had before.
func isUndisturbed(held, want v1.PodStatus) bool {
	c := conditionOf(&held, v1.DisruptionTarget)
	return c != nil && c.Reason == v1.PodReasonTerminationByKubelet && !isOver(want.Phase) && conditionOf(&want, v1.DisruptionTarget) == nil
}

// encodePatch makes a patch of what differs. With the UID in it, the server refuses it
// for another pod of the same name.
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

// carry returns the wanted status with all in it that is not ours to say.
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

// fieldsPatch is the patch of all but the conditions.
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

// conditionsPatch names the conditions of ours that differ, and those that go. The
// library would also set the order of all conditions, and take all away when we
// have none.
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

// replaceAddresses makes a changed list of addresses stand for all of it. Lists of
// addresses are merged by default, which would keep one that we never heard of.
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

// isOverwritten tells whether the status that a server answered to a patch lacks
// something of ours that was not in the patch, because we took the server to hold it.
// What was in the patch and is not in the answer is the server's will: an old one leaves
// out what it does not know.
func isOverwritten(held, want v1.PodStatus, sent map[string]any) bool {
	left, err := difference(held, want)
	return err == nil && !covers(sent, left)
}

// covers tells whether a patch is about everything that another one is about.
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

// isAbout tells whether two elements of a list are about the same container or
// condition.
func isAbout(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return x["name"] == y["name"] && x["type"] == y["type"]
}

// isUrgent tells whether others wait for this change: whether traffic may go to the
// pod, and where it is.
func isUrgent(held, want v1.PodStatus) bool {
	return isReady(held) != isReady(want) || held.PodIP != want.PodIP
}

func isReady(s v1.PodStatus) bool {
	c := conditionOf(&s, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}
