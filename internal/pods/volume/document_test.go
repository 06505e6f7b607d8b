package volume

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"

	"berth/internal/lib/doctest"
	"berth/internal/lib/volumekind"
)

func TestTheDocumentIsMadeFromTheTables(t *testing.T) {
	want := document(t)
	doctest.Check(t, "volumes.md", want)
}

const introduction = `# Volumes

Made from the tables of the code by ` + "`make docs`" + `.

Each kind of volume that the API of Kubernetes 1.36 has is set up, is translated to a volume of the CSI driver that has taken
over the kind (CSI migration), or is refused with a message that says what to use instead. In a cluster, a pod with a
refused volume waits, with the event ` + "`FailedMount`" + `; without one, it is rejected, and ` + "`berth validate`" + ` says so: storage is to be
mounted on the machine there, for a hostPath or a PersistentVolume of kind local.

The sources of a projected volume may be secret, configMap, downwardAPI, and for pods of a cluster serviceAccountToken,
clusterTrustBundle and podCertificate.

Without a cluster, PersistentVolumes come from manifests, and only those of hostPath and local are taken.

| kind | in a pod | as PersistentVolume |
|---|---|---|
`

// document returns docs/volumes.md. It fails the test for a kind of the API that is neither supported nor
// refused with an advice.
func document(t *testing.T) string {
	t.Helper()
	inPod, persistent := sourceFields(reflect.TypeFor[v1.VolumeSource]()), sourceFields(reflect.TypeFor[v1.PersistentVolumeSource]())
	var names []string
	for _, k := range volumekind.All() {
		names = append(names, string(k))
	}
	for _, k := range persistentKinds() {
		if !slices.Contains(names, k.field) {
			names = append(names, k.field)
		}
	}
	for _, more := range [][]string{inPod, persistent} {
		for _, name := range more {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var out strings.Builder
	out.WriteString(introduction)
	for _, name := range names {
		one, other := stateInPod(t, name), stateAsPersistent(t, name)
		if strings.HasPrefix(one, "no: ") && one == other {
			other = "no"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, one, other)
	}
	return out.String()
}

// sourceFields returns the names of the fields of a source, sorted.
func sourceFields(source reflect.Type) []string {
	var out []string
	for i := range source.NumField() {
		name, _, _ := strings.Cut(source.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// setField sets the field of a source that manifests call by a name. It returns false if there is none.
func setField(source reflect.Value, name string) bool {
	for i := range source.NumField() {
		if tag, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ","); tag == name {
			source.Field(i).Set(reflect.New(source.Field(i).Type().Elem()))
			return true
		}
	}
	return false
}

func stateInPod(t *testing.T, name string) string {
	t.Helper()
	v := v1.Volume{}
	if !setField(reflect.ValueOf(&v.VolumeSource).Elem(), name) {
		return "-"
	}
	switch kind := volumekind.Of(&v.VolumeSource); {
	case kind.IsMigrated():
		return driverOf(t, nil, &v)
	case kind != "":
		return "yes"
	}
	return advice(t, volumekind.Refusal(&v.VolumeSource))
}

func stateAsPersistent(t *testing.T, name string) string {
	t.Helper()
	pv := v1.PersistentVolume{}
	source := &pv.Spec.PersistentVolumeSource
	if !setField(reflect.ValueOf(source).Elem(), name) {
		return "-"
	}
	if csitranslation.New().IsPVMigratable(&pv) {
		return driverOf(t, &pv, nil)
	}
	for _, k := range persistentKinds() {
		switch {
		case k.is(source) && k.block:
			return "yes, also as a block device"
		case k.is(source):
			return "yes"
		}
	}
	return advice(t, volumekind.PersistentRefusal(source, ""))
}

func driverOf(t *testing.T, pv *v1.PersistentVolume, v *v1.Volume) string {
	t.Helper()
	plugin, err := csitranslation.New().GetInTreePluginNameFromSpec(pv, v)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := csitranslation.New().GetCSINameFromInTreeName(plugin)
	if err != nil {
		t.Fatal(err)
	}
	return "by the CSI driver `" + driver + "`"
}

func advice(t *testing.T, refusal string) string {
	t.Helper()
	_, instead, found := strings.Cut(refusal, " is not supported: ")
	if !found {
		t.Errorf("a refusal without an advice: %q", refusal)
	}
	return "no: " + instead
}
