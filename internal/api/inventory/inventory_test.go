package inventory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
)

func newPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: "uid"}}
}

func TestWhoUsesAnImage(t *testing.T) {
	web, db := newPod("web"), newPod("db")
	web.Spec.Containers = []v1.Container{{Image: "localhost/app:1"}, {Image: "localhost/app:1"}}
	db.Status.InitContainerStatuses = []v1.ContainerStatus{{ImageID: "sha256:app"}} // by another name
	db.Spec.InitContainers = []v1.Container{{Image: "localhost/unknown:1"}}
	given := []api.Image{
		{ID: "sha256:zoo", Tags: []string{"localhost/zoo:1"}},
		{ID: "sha256:app", Tags: []string{"localhost/app:1", "localhost/app:2"}},
		{ID: "sha256:nameless"},
	}
	var got []string
	for _, i := range Images(given, []*v1.Pod{web, db}) {
		got = append(got, fmt.Sprintf("%s by %v", Name(i), i.Pods))
	}
	want := " by [], localhost/app:1 by [x/db x/web], localhost/zoo:1 by []"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got %q, want %q", s, want)
	}
	if given[1].Pods != nil {
		t.Error("what was given was written to")
	}
}

func TestVolumes(t *testing.T) {
	since := time.Unix(100, 0)
	limit := resource.MustParse("1Ki")
	p := newPod("web")
	p.Spec.Volumes = []v1.Volume{
		{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "new", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: "srv", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv"}}},
		{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}},
		{Name: "key", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}},
		{Name: "me", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}},
		{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}}, {ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
		}}}},
		{Name: "disk", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
		{Name: "odd", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}}},
	}
	var asked []string
	stat := func(path string) Place {
		asked = append(asked, path)
		if !strings.HasSuffix(path, "/tmp") {
			return Place{}
		}
		return Place{There: true, Since: since, Capacity: new(int64(64)), Used: new(int64(7))}
	}
	number := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	var got []string
	for _, v := range Volumes([]*v1.Pod{p}, "/pods", stat) {
		got = append(got, fmt.Sprintf("%s %s (%s) at %q %s/%s %v", v.Name, v.Kind, v.Source, v.Path, number(v.Used), number(v.Capacity), v.Since != nil))
	}
	want := []string{
		`tmp emptyDir (memory) at "/pods/uid/volumes/kubernetes.io~empty-dir/tmp" 7/64 true`,
		`new emptyDir (disk) at "" ?/1024 false`,
		`srv hostPath (/srv) at "/srv" ?/? false`,
		`conf configMap (settings) at "" ?/? false`,
		`key secret (keys) at "" ?/? false`,
		`me downwardAPI (the pod) at "" ?/? false`,
		`all projected (secret s, token) at "" ?/? false`,
		`disk persistentVolumeClaim (claim) at "" ?/? false`,
		`odd unknown () at "" ?/? false`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The file systems of others may hang
	for _, path := range asked {
		if strings.Contains(path, "srv") || strings.Contains(path, "disk") {
			t.Errorf("looked at %s", path)
		}
	}
}
