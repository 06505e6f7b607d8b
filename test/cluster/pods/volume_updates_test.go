//go:build real

package pods

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab"
)

// reader is a pod that has a ConfigMap, a Secret, a label and an annotation of its own
// as files: each in a volume for itself, and all in one that is projected.
func reader(settings, key string) *corev1.Pod {
	p := kit.WorkloadPod("reader", "serve", ":7070")
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
	mounts := p.Spec.Containers[0].VolumeMounts
	mounts[1].ReadOnly, mounts[2].ReadOnly, mounts[2].RecursiveReadOnly = true, true, new(corev1.RecursiveReadOnlyIfPossible)
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

func allShown(t *testing.T, admin kubernetes.Interface, pods kit.Pods, namespace, settings, key string) []shown {
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

// dirOf is the directory of a pod on its node.
func dirOf(l *lab.Lab, p *corev1.Pod) string {
	for _, n := range l.Nodes() {
		if n.Name == p.Spec.NodeName {
			return filepath.Join(n.Root, "pods", string(p.UID))
		}
	}
	return ""
}

func TestVolumesFollowTheirSourcesWithinASecond(t *testing.T) {
	t.Parallel()
	// given a pod whose volumes show what may change
	l, admin := kit.SharedNamespace(t, "follows")
	pods := kit.PodsIn(t, admin, "follows")
	_, err := admin.CoreV1().ConfigMaps("follows").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "red"},
	}, kit.CreateOptions)
	kit.Must(t, err)
	_, err = admin.CoreV1().Secrets("follows").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"word": "open"},
	}, kit.CreateOptions)
	kit.Must(t, err)
	pods.MustCreate(reader("settings", "key"))
	before := pods.Await("reader", "ready", kit.IsReady)
	dir := dirOf(l, before)

	for _, s := range allShown(t, admin, pods, "follows", "settings", "key") {
		// when the source changes, then so do the volumes that show it
		var paths []string
		for _, file := range s.files {
			paths = append(paths, filepath.Join(dir, "volumes", "kubernetes.io~"+file.kind, file.path))
		}
		value := fixture.MustFollow(t, s.what, func(value string) { kit.Must(t, s.set(value)) }, paths...)

		// for the container as well
		for _, file := range s.files {
			var inside []byte
			kit.Within(t, kit.ShortTimeout, func() (err error) { // it runs for a moment before it listens
				inside, err = pods.ProxyGet("http", "reader", "7070", "/file", map[string]string{"path": "/" + file.path}).DoRaw(t.Context())
				return err
			})
			if string(inside) != value {
				t.Errorf("in the container, %s holds %q, not %q", file.path, inside, value)
			}
		}
	}

	// and its mounts are in the status as they are
	mounts := kit.Kubectl(t, l, "-n", "follows", "get", "pod", "reader", "-o",
		`jsonpath={range .status.containerStatuses[0].volumeMounts[*]}{.name} {.mountPath} {.readOnly} {.recursiveReadOnly}{"\n"}{end}`)
	if want := "map /map  \nsecret /secret true Disabled\nfields /fields true Enabled\nall /all  \n"; mounts != want {
		t.Errorf("its mounts are reported as\n%s, and should be\n%s", mounts, want)
	}
	kit.MustMatch(t, "kubectl describe pod", kit.Kubectl(t, l, "-n", "follows", "describe", "pod", "reader"),
		`(?m)^ +Mounts:\n +/all from all \(rw\)\n +/fields from fields \(ro\)\n +/map from map \(rw\)\n +/secret from secret \(ro\)$`)

	// and nothing was restarted for it
	kit.MustKeepInstance(t, pods.Await("reader", "ready", kit.IsReady), kit.InstanceOf(before))
	pods.MustRemove("reader")
	kit.Within(t, 10*time.Second, func() error {
		if _, err := os.Stat(dir); err == nil {
			return fmt.Errorf("its directory is left")
		}
		return nil
	})
}

// versionsPod returns a pod that reads three objects in one volume and writes the versions that it
// saw to another (see versions of test/workload). Two annotations of its own are one of the
// objects.
func versionsPod() *corev1.Pod {
	p := kit.WithoutRestart(kit.WorkloadPod("reader", "versions", "/all", "/report/versions"))
	p.Annotations = fixture.Numbered("pod", 2, 0)
	var fields []corev1.DownwardAPIVolumeFile
	for key := range p.Annotations {
		fields = append(fields, corev1.DownwardAPIVolumeFile{Path: key, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + key + "']"}})
	}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "report", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "map"}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: fields}},
		}}}},
	}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "report", MountPath: "/report"}, {Name: "all", MountPath: "/all"}}
	return p
}

func TestAContainerNeverSeesAMixOfVersions(t *testing.T) {
	t.Parallel()
	const keys, updates = 8, 1000
	objects := []string{"map", "secret", "pod"}
	// given a container that reads a volume of several sources all the time
	l, admin := kit.SharedNamespace(t, "versions")
	pods, core := kit.PodsIn(t, admin, "versions"), admin.CoreV1()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "map"}, Data: fixture.Numbered("map", keys, 0)}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: fixture.Numbered("secret", keys, 0)}
	_, err := core.ConfigMaps("versions").Create(t.Context(), settings, kit.CreateOptions)
	kit.Must(t, err)
	_, err = core.Secrets("versions").Create(t.Context(), secret, kit.CreateOptions)
	kit.Must(t, err)
	pods.MustCreate(versionsPod())
	before := pods.Await("reader", "ready", kit.IsReady)
	file := filepath.Join(dirOf(l, before), "volumes", "kubernetes.io~empty-dir", "report", "versions")
	fixture.AwaitVersions(t, file, 0, objects...)

	// when all sources change, again and again, then the container sees each version, and
	// never two of one object
	began, seen := time.Now(), fixture.Versions{}
	for i := 1; i <= updates; i++ {
		settings.Data, secret.StringData = fixture.Numbered("map", keys, i), fixture.Numbered("secret", keys, i)
		_, err := core.ConfigMaps("versions").Update(t.Context(), settings, metav1.UpdateOptions{})
		kit.Must(t, err)
		_, err = core.Secrets("versions").Update(t.Context(), secret, metav1.UpdateOptions{})
		kit.Must(t, err)
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": fixture.Numbered("pod", 2, i)}})
		kit.Must(t, err)
		_, err = pods.Patch(t.Context(), "reader", types.MergePatchType, patch, metav1.PatchOptions{})
		kit.Must(t, err)
		seen = fixture.AwaitVersions(t, file, i, objects...)
	}
	t.Logf("%d updates of three objects took %s; in the container, %d reads found %d versions of them",
		updates, time.Since(began).Round(time.Millisecond), seen.Reads, seen.Seen)
	if seen.Seen != len(objects)*(updates+1) {
		t.Errorf("it saw %d versions", seen.Seen)
	}
	kit.MustKeepInstance(t, pods.Await("reader", "ready", kit.IsReady), kit.InstanceOf(before))
	pods.MustRemove("reader")
}
