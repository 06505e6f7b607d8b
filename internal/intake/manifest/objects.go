package manifest

import (
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// drop removes what has no meaning in the manifest of a pod.
func drop(p *v1.Pod) {
	p.Status = v1.PodStatus{}
	p.ObjectMeta = plain(p.ObjectMeta)
	for _, key := range []string{pod.AnnotationSource, pod.AnnotationSeen, pod.AnnotationHash, pod.AnnotationMirror} {
		delete(p.Annotations, key)
	}

	p.Spec.NodeName = ""
	p.Spec.ServiceAccountName = ""
	p.Spec.DeprecatedServiceAccount = ""
	p.Spec.AutomountServiceAccountToken = nil
	p.Spec.SchedulingGates = nil
}

// plainObject is plain for what pods refer to. It also leaves out kubectl's second
// copy of the whole object.
func plainObject(m *metav1.ObjectMeta) {
	*m = plain(*m)
	delete(m.Annotations, v1.LastAppliedConfigAnnotation)
}

func prepareConfigMap(c *v1.ConfigMap) {
	plainObject(&c.ObjectMeta)
	fill(&c.Namespace, metav1.NamespaceDefault)
}

func prepareSecret(s *v1.Secret) {
	plainObject(&s.ObjectMeta)
	fill(&s.Namespace, metav1.NamespaceDefault)
	fill(&s.Type, v1.SecretTypeOpaque)
}

// mergeTexts writes what is given as text to where everything else is.
func mergeTexts(s *v1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func prepareClass(c *nodev1.RuntimeClass) {
	plainObject(&c.ObjectMeta)
	if c.Overhead != nil {
		roundUp(c.Overhead.PodFixed)
	}
}

func prepareVolume(v *v1.PersistentVolume) {
	plainObject(&v.ObjectMeta)
	v.Status = v1.PersistentVolumeStatus{}
	s := &v.Spec
	fill(&s.PersistentVolumeReclaimPolicy, v1.PersistentVolumeReclaimRetain)
	fillPtr(&s.VolumeMode, v1.PersistentVolumeFilesystem)
	if s.HostPath != nil {
		fillPtr(&s.HostPath.Type, v1.HostPathUnset)
	}
	if to := s.ClaimRef; to != nil {
		// Which life of the claim a cluster meant is of no use here.
		s.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: to.Namespace, Name: to.Name}
		fill(&s.ClaimRef.Namespace, metav1.NamespaceDefault)
	}
	roundUp(s.Capacity)
}

func prepareClaim(c *v1.PersistentVolumeClaim) {
	plainObject(&c.ObjectMeta)
	fill(&c.Namespace, metav1.NamespaceDefault)
	c.Status = v1.PersistentVolumeClaimStatus{}
	fillPtr(&c.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	roundUp(c.Spec.Resources.Requests)
	roundUp(c.Spec.Resources.Limits)
}
