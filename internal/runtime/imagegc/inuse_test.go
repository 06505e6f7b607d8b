package imagegc

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

func TestImagesOfPodsAndArchivesAreInUse(t *testing.T) {
	held := map[pod.UID]*pod.Observed{"a": {Namespace: "default", Name: "old", Containers: []pod.Container{{Image: "localhost/app:1", ImageRef: "sha256:1"}, {}}}}
	desired := []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Image: "localhost/web"}},
			Volumes:    []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/data:1"}}}},
		},
	}}
	want := map[string]string{
		"localhost/app:1": "pod default/old uses it", "sha256:1": "pod default/old uses it",
		"localhost/web": "pod default/new uses it", "localhost/web:latest": "pod default/new uses it", "localhost/data:1": "pod default/new uses it",
		"localhost/spare:1": "its archive is in the folder of images",
	}
	if got := InUse(held, desired, []string{"localhost/spare:1", "localhost/app:1"}); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
