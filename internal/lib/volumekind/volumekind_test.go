package volumekind

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// sourceWith returns a source with one field, found by its name in manifests, that is set.
func sourceWith(t *testing.T, k Kind) *v1.VolumeSource {
	t.Helper()
	s := &v1.VolumeSource{}
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if tag := fields.Type().Field(i).Tag.Get("json"); tag == string(k)+",omitempty" {
			fields.Field(i).Set(reflect.New(fields.Field(i).Type().Elem()))
			return s
		}
	}
	t.Fatalf("a volume has no field %s", k)
	return nil
}

func TestEveryKindIsAFieldOfAVolume(t *testing.T) {
	for _, k := range All() {
		s := sourceWith(t, k)
		if got := Of(s); got != k {
			t.Errorf("%s is taken for %q", k, got)
		}
		_, _ = SourceOf(s), UsageOf(s) // for each kind there is something to say
	}
}

func TestKindsThatAreNotSupported(t *testing.T) {
	for k, advice := range instead {
		s := sourceWith(t, k)
		if got := Of(s); got != "" {
			t.Errorf("%s is taken for %q", k, got)
		}
		if SourceOf(s) != "" || UsageOf(s) != NotMeasured || Of(s).Plugin() != "kubernetes.io/unknown" || Of(s).OwnDir() {
			t.Errorf("something is known of %s", k)
		}
		if got, want := Refusal(s), string(k)+" is not supported: "+advice; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		// Without a cluster there are no persistent volumes of CSI drivers.
		if got := StandaloneRefusal(s); !strings.HasPrefix(got, string(k)+" is not supported: ") || strings.Contains(got, "CSI") {
			t.Errorf("without a cluster: %q", got)
		}
	}
	if got := StandaloneRefusal(&v1.VolumeSource{}) + StandaloneRefusal(&v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}); got != Refusal(&v1.VolumeSource{}) {
		t.Error(got)
	}
	if got := Refusal(&v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}); got != "" {
		t.Errorf("nfs is refused: %s", got)
	}
	if got := PersistentRefusal(&v1.PersistentVolumeSource{RBD: &v1.RBDPersistentVolumeSource{}}, "csi"); !strings.HasPrefix(got, "rbd is not supported: use") {
		t.Error(got)
	}
	// A newer API may have kinds that this program can't read.
	if got := PersistentRefusal(&v1.PersistentVolumeSource{}, "csi, nfs"); got != "its kind is not supported; these are: csi, nfs" {
		t.Error(got)
	}
	if got := Refusal(&v1.VolumeSource{}); !strings.HasPrefix(got, "its kind is not supported; these are: emptyDir, ") {
		t.Error(got)
	}
}

func TestDirectoriesAreNamedLikeTheKubelets(t *testing.T) {
	for k, want := range map[Kind]string{
		EmptyDir: "kubernetes.io~empty-dir", ConfigMap: "kubernetes.io~configmap", Secret: "kubernetes.io~secret",
		DownwardAPI: "kubernetes.io~downward-api", Projected: "kubernetes.io~projected", NFS: "kubernetes.io~nfs", CSI: "kubernetes.io~csi",
		AzureDisk: "kubernetes.io~csi",
	} {
		if got := k.Dir(); got != want {
			t.Errorf("%s: got %s, want %s", k, got, want)
		}
	}
}

func TestTraits(t *testing.T) {
	for name, c := range map[string]struct {
		has  func(Kind) bool
		want []Kind
	}{
		"content":   {Kind.HasContent, []Kind{ConfigMap, Secret, DownwardAPI, Projected}},
		"directory": {Kind.OwnDir, []Kind{EmptyDir, ConfigMap, Secret, DownwardAPI, Projected}},
		"device":    {Kind.CanBeDevice, []Kind{Claim, Ephemeral}},
		"migrated":  {Kind.IsMigrated, []Kind{AWSElasticBlockStore, AzureDisk, AzureFile, Cinder, GCEPersistentDisk, PortworxVolume, VsphereVolume}},
	} {
		got := slices.DeleteFunc(All(), func(k Kind) bool { return !c.has(k) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestVolumesInMemoryAreNotEphemeralStorage(t *testing.T) {
	for medium, want := range map[v1.StorageMedium]Usage{"": EphemeralFiles, v1.StorageMediumMemory: Filesystem, "HugePages-2Mi": Filesystem} {
		if got := UsageOf(&v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}); got != want {
			t.Errorf("medium %q: got %d, want %d", medium, got, want)
		}
	}
}
