package volumekind

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// gitRepo is the only kind among the refused ones that is not a storage system.
const gitRepo Kind = "gitRepo"

// instead says what to use in place of each kind that berth does not set up. Kubernetes itself has
// dropped all of them but iscsi, fc and flexVolume, which CSI drivers have taken over as well.
var instead = map[Kind]string{
	"iscsi":                "use a PersistentVolume of the CSI driver iscsi.csi.k8s.io, or of the vendor of the storage",
	"fc":                   "use a PersistentVolume of the CSI driver of the vendor of the storage",
	"flexVolume":           "use the CSI driver of the vendor of the storage",
	"rbd":                  "use a PersistentVolume of the CSI driver rbd.csi.ceph.com",
	"cephfs":               "use a PersistentVolume of the CSI driver cephfs.csi.ceph.com",
	"glusterfs":            "use a PersistentVolume of a CSI driver for GlusterFS, or export it by NFS and use nfs",
	"flocker":              "use a PersistentVolume of the CSI driver of the storage behind it",
	"quobyte":              "use a PersistentVolume of the CSI driver csi.quobyte.com",
	"photonPersistentDisk": "use a PersistentVolume of the CSI driver csi.vsphere.vmware.com",
	"scaleIO":              "use a PersistentVolume of the CSI driver csi-vxflexos.dellemc.com",
	"storageos":            "use a PersistentVolume of another CSI driver",
	gitRepo:                "use an emptyDir and an init container that clones the repository into it",
}

// Refusal returns why a volume of a pod can't be set up, and what to use instead. It is empty for a
// supported kind.
func Refusal(s *v1.VolumeSource) string {
	if Of(s) != "" {
		return ""
	}
	return refusal(fieldSet(reflect.ValueOf(s).Elem()), List(All()))
}

// StandaloneRefusal is Refusal for a machine without a cluster, on which CSI drivers have no persistent
// volumes.
func StandaloneRefusal(s *v1.VolumeSource) string {
	k := fieldSet(reflect.ValueOf(s).Elem())
	if _, refused := instead[k]; !refused || k == gitRepo {
		return Refusal(s)
	}
	return string(k) + " is not supported: mount the storage on this machine, and use a hostPath or a PersistentVolume of kind local"
}

// PersistentRefusal returns why a persistent volume can't be set up if its kind is none of the supported
// ones, and what to use instead.
func PersistentRefusal(s *v1.PersistentVolumeSource, supported string) string {
	return refusal(fieldSet(reflect.ValueOf(s).Elem()), supported)
}

func refusal(k Kind, supported string) string {
	if advice := instead[k]; advice != "" {
		return string(k) + " is not supported: " + advice
	}
	return "its kind is not supported; these are: " + supported
}

// fieldSet returns the name, as manifests have it, of the field that is set in a struct of pointers, or
// "" if there is none: a kind that is newer than this program is lost in decoding.
func fieldSet(source reflect.Value) Kind {
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return Kind(name)
		}
	}
	return ""
}
