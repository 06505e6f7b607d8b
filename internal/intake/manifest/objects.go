package manifest

import (
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// dropServerFields removes the fields of a pod that mean nothing in a manifest.
func dropServerFields(p *v1.Pod) {
	p.Status = v1.PodStatus{}
	p.ObjectMeta = keptMetadata(p.ObjectMeta)
	for _, key := range []string{pod.AnnotationSource, pod.AnnotationSeen, pod.AnnotationHash, pod.AnnotationMirror} {
		delete(p.Annotations, key)
	}

	p.Spec.NodeName = ""
	p.Spec.ServiceAccountName = ""
	p.Spec.DeprecatedServiceAccount = ""
	p.Spec.AutomountServiceAccountToken = nil
	p.Spec.SchedulingGates = nil
}

// cleanMetadata reduces the metadata of an object that pods refer to, as keptMetadata does, and
// removes the annotation in which kubectl apply keeps a copy of the whole object.
func cleanMetadata(m *metav1.ObjectMeta) {
	*m = keptMetadata(*m)
	delete(m.Annotations, v1.LastAppliedConfigAnnotation)
}

func prepareConfigMap(c *v1.ConfigMap) {
	cleanMetadata(&c.ObjectMeta)
	setDefault(&c.Namespace, metav1.NamespaceDefault)
}

func prepareSecret(s *v1.Secret) {
	cleanMetadata(&s.ObjectMeta)
	setDefault(&s.Namespace, metav1.NamespaceDefault)
	setDefault(&s.Type, v1.SecretTypeOpaque)
}

// mergeStringData moves the stringData of a Secret into its data.
func mergeStringData(s *v1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func prepareClass(c *nodev1.RuntimeClass) {
	cleanMetadata(&c.ObjectMeta)
	if c.Overhead != nil {
		roundUp(c.Overhead.PodFixed)
	}
}

func prepareVolume(v *v1.PersistentVolume) {
	cleanMetadata(&v.ObjectMeta)
	v.Status = v1.PersistentVolumeStatus{}
	s := &v.Spec
	setDefault(&s.PersistentVolumeReclaimPolicy, v1.PersistentVolumeReclaimRetain)
	setDefaultPtr(&s.VolumeMode, v1.PersistentVolumeFilesystem)
	if s.HostPath != nil {
		setDefaultPtr(&s.HostPath.Type, v1.HostPathUnset)
	}
	if to := s.ClaimRef; to != nil {
		// The UID of the claim in a cluster is of no use here.
		s.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: to.Namespace, Name: to.Name}
		setDefault(&s.ClaimRef.Namespace, metav1.NamespaceDefault)
	}
	roundUp(s.Capacity)
}

func prepareClaim(c *v1.PersistentVolumeClaim) {
	cleanMetadata(&c.ObjectMeta)
	setDefault(&c.Namespace, metav1.NamespaceDefault)
	c.Status = v1.PersistentVolumeClaimStatus{}
	setDefaultPtr(&c.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	roundUp(c.Spec.Resources.Requests)
	roundUp(c.Spec.Resources.Limits)
}
