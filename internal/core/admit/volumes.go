package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

// checkVolumes rejects pods with volumes that can't be set up on this node, and says what to use instead.
//
// In a cluster, a pod with a volume of a kind that is not supported is admitted, and waits with an event
// FailedMount, as with a kubelet: a controller would replace each rejected pod by another one at once.
func checkVolumes(p *v1.Pod, n Node) *Rejection {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if why := volumekind.Refusal(&v.VolumeSource); why != "" && !n.InCluster {
			return &Rejection{Reason: pod.ReasonFeatureUnsupported, Message: fmt.Sprintf("volume %q: %s", v.Name, why)}
		}
	}
	return nil
}
