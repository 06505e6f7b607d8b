package expansion

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// markInProgress returns a claim whose status says that this node expands the volume.
func markInProgress(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	out := claim.DeepCopy()
	setStatus(out, v1.PersistentVolumeClaimNodeResizeInProgress)
	return out
}

// markFinished returns a claim whose status has the new size, and nothing of the resize.
func markFinished(claim *v1.PersistentVolumeClaim, size resource.Quantity) *v1.PersistentVolumeClaim {
	out := claim.DeepCopy()
	if out.Status.Capacity == nil {
		out.Status.Capacity = v1.ResourceList{}
	}
	out.Status.Capacity[v1.ResourceStorage] = size
	if delete(out.Status.AllocatedResourceStatuses, v1.ResourceStorage); len(out.Status.AllocatedResourceStatuses) == 0 {
		out.Status.AllocatedResourceStatuses = nil
	}
	out.Status.Conditions = slices.DeleteFunc(out.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool { return isResize(c.Type) })
	return out
}

// markFailed returns a claim with a condition that says why its volume can't be expanded. If the size
// is not possible, the resizer may choose another one.
func markFailed(claim *v1.PersistentVolumeClaim, reason error, infeasible bool, now time.Time) *v1.PersistentVolumeClaim {
	out := claim.DeepCopy()
	if infeasible {
		setStatus(out, v1.PersistentVolumeClaimNodeResizeInfeasible)
	}
	condition := v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Message: fmt.Sprintf("failed to expand pvc with %v", reason),
	}
	at := slices.IndexFunc(out.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool { return c.Type == condition.Type })
	switch {
	case at < 0:
		out.Status.Conditions = append(out.Status.Conditions, condition)
	case out.Status.Conditions[at].Status != condition.Status:
		out.Status.Conditions[at] = condition
	}
	return out
}

func setStatus(claim *v1.PersistentVolumeClaim, status v1.ClaimResourceStatus) {
	if claim.Status.AllocatedResourceStatuses == nil {
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{}
	}
	claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] = status
}

// isResize reports whether a condition is about a resize, and ends with it.
func isResize(t v1.PersistentVolumeClaimConditionType) bool {
	switch t {
	case v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
		v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError:
		return true
	default:
		return false
	}
}

// statusPatch returns a strategic merge patch of the status of a claim, or nil if there is no
// difference. With a version, it fails if the claim was changed since it was read.
func statusPatch(before, after *v1.PersistentVolumeClaim, version bool) ([]byte, error) {
	if apiequality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil, nil
	}
	if version { // what is missing before is in the patch
		before = before.DeepCopy()
		before.ResourceVersion = ""
	}
	have, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	want, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(have, want, before)
}
