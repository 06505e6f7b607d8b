//go:build real

package kit

import (
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewLocalVolume is a volume of that size in a directory of its own, with a file that names it.
func (n *Node) NewLocalVolume(name, size string) *v1.PersistentVolume {
	n.T.Helper()
	path := filepath.Join(n.Dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		n.T.Fatal(err)
	}
	n.ReplaceFile(filepath.Join(path, "name"), []byte(name))
	return &v1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{NodeName}}},
			}}}},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}
}

// NewClaim asks for 1 GiB.
func NewClaim(name string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// ClaimVolume is the volume of a pod that is bound to a PersistentVolumeClaim.
func ClaimVolume(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// SecretText is the content of a Secret. It must show up nowhere but in the container.
const SecretText = "hush-hush-8c1f"

// NewConfigMap is a ConfigMap with the key colour.
func NewConfigMap(name, colour string) *v1.ConfigMap {
	return &v1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string]string{"colour": colour},
	}
}

// NewSecret is a Secret whose key word holds SecretText.
func NewSecret(name string) *v1.Secret {
	return &v1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		StringData: map[string]string{"word": SecretText},
	}
}

// WithConfigMap gives a pod the variable COLOUR and the folder /etc/cfg of a ConfigMap.
func WithConfigMap(p *v1.Pod, name string) *v1.Pod {
	c := &p.Spec.Containers[0]
	c.Env = append(c.Env, v1.EnvVar{Name: "COLOUR", ValueFrom: &v1.EnvVarSource{
		ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: "colour"},
	}})
	AddVolume(p, "/etc/cfg", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
	return p
}

// AddVolume gives a pod a volume, and mounts it in its first container.
func AddVolume(p *v1.Pod, path string, source v1.VolumeSource) {
	c := &p.Spec.Containers[0]
	name := strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
}

// ApplyObjects is Apply for objects of all kinds.
func (n *Node) ApplyObjects(file string, objects ...any) {
	n.T.Helper()
	n.ReplaceFile(filepath.Join(n.Manifests, file), Manifest(n.T, objects...))
}

// ReadFile reads a file in a pod's container.
func (n *Node) ReadFile(p v1.Pod, path string) string {
	n.T.Helper()
	return n.WaitAnswer(p.Status.PodIP+":7070", "/file?path="+path)
}
