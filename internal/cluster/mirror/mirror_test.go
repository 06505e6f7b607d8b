package mirror

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

func node() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "node-uid"}} }

func static() *v1.Pod {
	priority := int32(5)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-box", Namespace: "default", UID: "static-uid", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{pod.AnnotationHash: "h1", pod.AnnotationSource: pod.SourceFile, "note": "n"},
		},
		Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "app", Image: "localhost/web:1"}}},
	}
}

func TestAMirrorIsTheNodesCopyOfAStaticPod(t *testing.T) {
	original := static()
	m := Of(original, node())
	if m.Name != "web-box" || m.Namespace != "default" || m.UID != "" || m.Spec.NodeName != "box" || m.Spec.Priority != nil {
		t.Errorf("mirror %+v", m)
	}
	if m.Annotations[pod.AnnotationMirror] != "h1" || m.Annotations["note"] != "n" || m.Labels["app"] != "web" || !pod.IsMirror(m) {
		t.Errorf("annotations %v, labels %v", m.Annotations, m.Labels)
	}
	o := m.OwnerReferences
	if len(o) != 1 || o[0].APIVersion != "v1" || o[0].Kind != "Node" || o[0].Name != "box" || o[0].UID != "node-uid" || !*o[0].Controller || o[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v", o)
	}
	// The static pod is shared, and stays as it was.
	m.Labels["app"], m.Spec.Containers[0].Image = "x", "x"
	if pod.IsMirror(original) || original.Labels["app"] != "web" || original.Spec.Containers[0].Image != "localhost/web:1" {
		t.Errorf("the static pod is changed: %+v", original)
	}
}

func TestAMirrorRefersToNothing(t *testing.T) {
	p := static()
	secret := &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{Key: "k"}}
	field := &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	p.Spec.ServiceAccountName = "sa"
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", ValueFrom: secret}, {Name: "C", ValueFrom: field}}
	p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{}}}
	p.Spec.Volumes = []v1.Volume{
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}},
		{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
		{Name: "claim", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
		{Name: "labels", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{DownwardAPI: &v1.DownwardAPIProjection{}}}}}},
		{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}}}}}},
		{Name: "plain"},
	}
	m := Of(p, node())
	want := "serviceAccountName, imagePullSecrets, volume secret, volume claim, volume token, envFrom of app, env B of app"
	if have := m.Annotations[AnnotationOmits]; have != want {
		t.Errorf("omitted %q\nwant    %q", have, want)
	}
	v := m.Spec.Volumes
	if m.Spec.ServiceAccountName != "" || m.Spec.ImagePullSecrets != nil || v[0].HostPath == nil || v[3].Projected == nil || v[5].EmptyDir != nil {
		t.Errorf("spec %+v", m.Spec)
	}
	for _, i := range []int{1, 2, 4} {
		if v[i].EmptyDir == nil || v[i].Secret != nil || v[i].PersistentVolumeClaim != nil || v[i].Projected != nil {
			t.Errorf("volume %+v", v[i])
		}
	}
	c := m.Spec.Containers[0]
	if len(c.Env) != 2 || c.Env[0].Name != "A" || c.Env[1].Name != "C" || c.EnvFrom != nil {
		t.Errorf("container %+v", c)
	}
	if len(p.Spec.Containers[0].Env) != 3 || p.Spec.Volumes[1].Secret == nil {
		t.Error("the static pod is changed")
	}
}

func TestAMirrorIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(static, mirror *v1.Pod)
		want   Verdict
	}{
		"equal": {func(_, _ *v1.Pod) {}, Keep},
		"filled in by the server": {func(_, m *v1.Pod) {
			m.Generation = 1
			m.Spec.Tolerations = []v1.Toleration{{Key: "k"}}
			m.Labels["more"] = "x"
			m.Status.Phase = v1.PodRunning
		}, Keep},
		"being deleted":           {func(_, m *v1.Pod) { m.DeletionTimestamp = &metav1.Time{} }, Renew},
		"of an edited static pod": {func(s, _ *v1.Pod) { s.Annotations[pod.AnnotationHash] = "h2" }, Renew},
		"with another image":      {func(_, m *v1.Pod) { m.Generation = 2 }, Renew},
		"with another label":      {func(_, m *v1.Pod) { m.Labels["app"] = "other" }, Renew},
		"without a label":         {func(_, m *v1.Pod) { m.Labels = nil }, Renew},
		"of a node that is no more": {func(_, m *v1.Pod) {
			m.OwnerReferences[0].UID = "old"
		}, Renew},
	} {
		t.Run(name, func(t *testing.T) {
			s := static()
			m := Of(s, node())
			c.change(s, m)
			if have := Judge(s, m, node()); have != c.want {
				t.Errorf("verdict %d, want %d", have, c.want)
			}
		})
	}
	if Judge(static(), nil, node()) != Create {
		t.Error("what is not there must be created")
	}
}
