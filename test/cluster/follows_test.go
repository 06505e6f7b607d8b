//go:build real

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth/test/kit"
)

// reader is a pod that has a ConfigMap, a Secret, a label and an annotation of its own
// as files: each in a volume for itself, and all in one that is projected.
func reader(settings, key string) *corev1.Pod {
	p := workloadPod("reader", "serve", ":7070")
	p.Labels, p.Annotations = map[string]string{"place": "here"}, map[string]string{"mood": "fine"}
	fields := []corev1.DownwardAPIVolumeFile{
		{Path: "place", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['place']"}},
		{Path: "mood", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['mood']"}},
	}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: key}}},
		{Name: "fields", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: fields}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: settings}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: key}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: fields}},
		}}}},
	}
	for _, v := range p.Spec.Volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return p
}

// shown is something that volumes show.
type shown struct {
	what  string
	files []volumeFile
	set   func(value string) error
}

// volumeFile is a file of a volume of that kind. The path begins with the name of the
// volume, and is that in the container, too.
type volumeFile struct{ kind, path string }

func allShown(t *testing.T, admin kubernetes.Interface, pods pods, namespace, settings, key string) []shown {
	patch := func(value, format string) []byte { return fmt.Appendf(nil, format, value) }
	onPod := func(format string) func(string) error {
		return func(value string) error {
			_, err := pods.Patch(t.Context(), "reader", types.MergePatchType, patch(value, format), metav1.PatchOptions{})
			return err
		}
	}
	return []shown{
		{"ConfigMap", []volumeFile{{"configmap", "map/colour"}, {"projected", "all/colour"}}, func(value string) error {
			_, err := admin.CoreV1().ConfigMaps(namespace).Patch(t.Context(), settings, types.MergePatchType, patch(value, `{"data":{"colour":%q}}`), metav1.PatchOptions{})
			return err
		}},
		{"Secret", []volumeFile{{"secret", "secret/word"}, {"projected", "all/word"}}, func(value string) error {
			_, err := admin.CoreV1().Secrets(namespace).Patch(t.Context(), key, types.MergePatchType, patch(value, `{"stringData":{"word":%q}}`), metav1.PatchOptions{})
			return err
		}},
		{"label", []volumeFile{{"downward-api", "fields/place"}, {"projected", "all/place"}}, onPod(`{"metadata":{"labels":{"place":%q}}}`)},
		{"annotation", []volumeFile{{"downward-api", "fields/mood"}, {"projected", "all/mood"}}, onPod(`{"metadata":{"annotations":{"mood":%q}}}`)},
	}
}

func TestVolumesFollowTheirSourcesWithinASecond(t *testing.T) {
	t.Parallel()
	// given a pod whose volumes show what may change
	l, admin := sharedNamespace(t, "follows")
	pods := podsIn(t, admin, "follows")
	_, err := admin.CoreV1().ConfigMaps("follows").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "red"},
	}, create)
	must(t, err)
	_, err = admin.CoreV1().Secrets("follows").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"word": "open"},
	}, create)
	must(t, err)
	pods.create(reader("settings", "key"))
	before := pods.await("reader", "ready", isReady)
	var dir string
	for _, n := range l.Nodes() {
		if n.Name == before.Spec.NodeName {
			dir = filepath.Join(n.Root, "pods", string(before.UID))
		}
	}

	for _, s := range allShown(t, admin, pods, "follows", "settings", "key") {
		// when the source changes, then so do the volumes that show it
		var paths []string
		for _, file := range s.files {
			paths = append(paths, filepath.Join(dir, "volumes", "kubernetes.io~"+file.kind, file.path))
		}
		value := kit.MustFollow(t, s.what, func(value string) { must(t, s.set(value)) }, paths...)

		// for the container as well
		for _, file := range s.files {
			inside, err := pods.ProxyGet("http", "reader", "7070", "/file", map[string]string{"path": "/" + file.path}).DoRaw(t.Context())
			must(t, err)
			if string(inside) != value {
				t.Errorf("in the container, %s holds %q, not %q", file.path, inside, value)
			}
		}
	}

	// and nothing was restarted for it
	mustBeSame(t, pods.await("reader", "ready", isReady), lifeOf(before))
	pods.remove("reader")
	within(t, 10*time.Second, func() error {
		if _, err := os.Stat(dir); err == nil {
			return fmt.Errorf("its directory is left")
		}
		return nil
	})
}
