package expansion

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notRequired is the annotation of a claim whose volume has its new size on all nodes as soon as the
// resizer has expanded it.
const notRequired = "volume.kubernetes.io/node-expansion-not-required"

// verdict is what a node does about the size of a volume.
type verdict int

const (
	wait   verdict = iota // until the resizer is done, or something else changes
	accept                // the volume has the size without a call to its driver
	expand                // the driver has to expand the volume
)

// decision is a verdict on a volume, with the size that the volume gets.
type decision struct {
	verdict verdict
	size    resource.Quantity
	// report says that the status of the claim gets the size. If it has it, another node expanded the
	// volume before.
	report bool
	// recoverable says that the resizer knows status.allocatedResources: it is informed of progress and
	// failures, and can choose another size after a failure.
	recoverable bool
}

// requested reports whether the resizer waits for this node.
func (d decision) requested() bool { return d.recoverable && d.report }

// decide returns what a node does about a volume that has grown. have is its size on this node.
func decide(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume, have resource.Quantity) decision {
	status := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	claimed := claim.Status.Capacity[v1.ResourceStorage]
	if status == "" && claim.Status.AllocatedResources == nil { // of an old resizer
		size := pv.Spec.Capacity[v1.ResourceStorage]
		return decision{verdict: expand, size: size, report: claimed.Cmp(size) < 0}
	}
	size := claim.Status.AllocatedResources[v1.ResourceStorage]
	switch {
	case status == v1.PersistentVolumeClaimNodeResizePending, status == v1.PersistentVolumeClaimNodeResizeInProgress:
		return decision{verdict: expand, size: size, report: true, recoverable: true}
	case status != "" || claimed.Cmp(size) < 0:
		return decision{}
	case size.Cmp(have) > 0 && onEachNode(claim):
		return decision{verdict: expand, size: size, recoverable: true}
	default:
		return decision{verdict: accept, size: size}
	}
}

// onEachNode reports whether the volume of a claim has to be expanded on every node that has it, also
// after it was expanded on one of them.
func onEachNode(claim *v1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany) && !metav1.HasAnnotation(claim.ObjectMeta, notRequired)
}

// grownAtMount reports whether a volume that is being mounted is larger than its claim says.
func grownAtMount(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	return claim.Status.Capacity.Storage().Cmp(*pv.Spec.Capacity.Storage()) < 0
}

// grownOnline reports whether a mounted volume is larger than it was. An unknown size is none.
func grownOnline(pv *v1.PersistentVolume, have resource.Quantity) bool {
	return !have.IsZero() && pv.Spec.Capacity.Storage().Cmp(have) > 0
}

// mayGrow reports whether a claim asks for more than its mounted volume has, or is being resized: then
// the persistent volume is worth a look. An administrator who resizes a volume by hand edits both.
func mayGrow(claim *v1.PersistentVolumeClaim, have resource.Quantity) bool {
	resizing := slices.ContainsFunc(claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == v1.PersistentVolumeClaimFileSystemResizePending && c.Status == v1.ConditionTrue
	})
	return resizing || claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] != "" ||
		claim.Spec.Resources.Requests.Storage().Cmp(have) > 0 || claim.Status.Capacity.Storage().Cmp(have) > 0
}
