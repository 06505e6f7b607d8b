package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

// checkVolumes rejects pods with volumes that can't be set up on this node, and says what to use instead.
//
// In a cluster, a pod with a volume of a kind that is not supported is admitted, and waits with an event
// FailedMount, as with a kubelet: a controller would replace each rejected pod by another one at once.
// Static pods, which no controller replaces, get no certificates there either.
func checkVolumes(p *v1.Pod, n Node) *Rejection {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		var why string
		switch {
		case !n.InCluster && volumekind.Of(&v.VolumeSource) == "":
			why = volumekind.StandaloneRefusal(&v.VolumeSource)
		case (!n.InCluster || pod.IsStatic(p)) && hasCertificate(v.Projected):
			why = "a podCertificate is for pods of a cluster: take the key and the certificate from a secret"
		default:
			continue
		}
		return &Rejection{Reason: pod.ReasonFeatureUnsupported, Message: fmt.Sprintf("volume %q: %s", v.Name, why)}
	}
	return nil
}

func hasCertificate(s *v1.ProjectedVolumeSource) bool {
	return s != nil && slices.ContainsFunc(s.Sources, func(p v1.VolumeProjection) bool { return p.PodCertificate != nil })
}
