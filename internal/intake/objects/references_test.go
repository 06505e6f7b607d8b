package objects

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// everyPlace fills in a pod's spec wherever it can name an object, and returns the
// names by the place. It knows nothing of the fields of a pod: one that Kubernetes adds
// is filled in, too.
type everyPlace struct{ secrets, configMaps []string }

func (e *everyPlace) fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.New(v.Type().Elem()))
			e.fill(v.Elem(), path)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			e.fill(v.Index(0), path)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[v1.PersistentVolumeClaimTemplate]() {
			return // what a claim refers to is not for the pod
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			at := path + "." + field.Name
			named := v.Type() == reflect.TypeFor[v1.LocalObjectReference]() && field.Name == "Name"
			switch {
			case !field.IsExported():
			case field.Name == "SecretName", named && strings.Contains(path, "Secret"):
				e.secrets = append(e.secrets, at)
				v.Field(i).SetString(at)
			case named && strings.Contains(path, "ConfigMap"):
				e.configMaps = append(e.configMaps, at)
				v.Field(i).SetString(at)
			case named:
				panic("what kind of object is named at " + at + "?")
			default:
				e.fill(v.Field(i), at)
			}
		}
	}
}

func TestEveryPlaceOfAPodThatNamesAnObjectIsFound(t *testing.T) {
	var p v1.Pod
	var want everyPlace
	want.fill(reflect.ValueOf(&p.Spec).Elem(), "spec")
	// What this test itself could overlook.
	for _, place := range []string{
		"spec.InitContainers.Env.ValueFrom.SecretKeyRef.LocalObjectReference.Name",
		"spec.Containers.EnvFrom.SecretRef.LocalObjectReference.Name",
		"spec.EphemeralContainers.EphemeralContainerCommon.Env.ValueFrom.SecretKeyRef.LocalObjectReference.Name",
		"spec.ImagePullSecrets.Name",
		"spec.Volumes.VolumeSource.Secret.SecretName",
		"spec.Volumes.VolumeSource.Projected.Sources.Secret.LocalObjectReference.Name",
		"spec.Volumes.VolumeSource.CSI.NodePublishSecretRef.Name",
	} {
		if !slices.Contains(want.secrets, place) {
			t.Errorf("the test does not fill in %s, but %q", place, want.secrets)
		}
	}

	for kind, c := range map[string]struct{ have, want []string }{
		"secrets":    {SecretsOf(&p), want.secrets},
		"configmaps": {ConfigMapsOf(&p), want.configMaps},
	} {
		slices.Sort(c.want)
		if len(c.want) < 8 || !slices.Equal(c.have, c.want) {
			t.Errorf("%s\nhave %s\nwant %s", kind, strings.Join(c.have, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

func TestWhatAPodRefersTo(t *testing.T) {
	class := "gvisor"
	p := &v1.Pod{Spec: v1.PodSpec{
		RuntimeClassName: &class,
		ImagePullSecrets: []v1.LocalObjectReference{{Name: "b"}, {Name: ""}, {Name: "a"}, {Name: "b"}},
		Volumes: []v1.Volume{
			{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "mine"}}},
			{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
		},
	}}
	p.Name = "web"
	have := fmt.Sprintf("%v %v %v %s %s", SecretsOf(p), ConfigMapsOf(p), ClaimsOf(p), RuntimeClassOf(p), ServiceAccountOf(p))
	if want := "[a b] [] [mine web-scratch] gvisor default"; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	p.Spec.ServiceAccountName = "robot"
	p.Spec.RuntimeClassName = nil
	if have := RuntimeClassOf(p) + ServiceAccountOf(p); have != "robot" {
		t.Errorf("have %s", have)
	}
}
