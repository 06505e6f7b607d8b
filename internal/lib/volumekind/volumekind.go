// Package volumekind is the table of the kinds of volumes that berth supports, with the properties of
// each kind, and the list of the others, with what to use instead. No other package lists the kinds,
// except volume, which adds to each supported one the functions that set it up, and a test makes sure
// that it has all of them. docs/volumes.md is made from both.
package volumekind

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Kind is the name of the field of v1.VolumeSource that a volume of that kind has. It is empty for a
// kind that is not supported.
type Kind string

const (
	EmptyDir    Kind = "emptyDir"
	HostPath    Kind = "hostPath"
	ConfigMap   Kind = "configMap"
	Secret      Kind = "secret"
	DownwardAPI Kind = "downwardAPI"
	Projected   Kind = "projected"
	Claim       Kind = "persistentVolumeClaim"
	Ephemeral   Kind = "ephemeral"
	CSI         Kind = "csi"
	NFS         Kind = "nfs"
	Image       Kind = "image"
)

// The kinds that CSI drivers have taken over. Such a volume is translated to one of its driver.
const (
	AWSElasticBlockStore Kind = "awsElasticBlockStore"
	AzureDisk            Kind = "azureDisk"
	AzureFile            Kind = "azureFile"
	Cinder               Kind = "cinder"
	GCEPersistentDisk    Kind = "gcePersistentDisk"
	PortworxVolume       Kind = "portworxVolume"
	VsphereVolume        Kind = "vsphereVolume"
)

// row has the properties of one kind.
type row struct {
	kind Kind
	// plugin is the name of the kubelet's volume plugin. All claims have the same one: the volume of a
	// claim is not looked up for it.
	plugin string
	is     func(*v1.VolumeSource) bool
	source func(*v1.VolumeSource) string
	traits traits
	usage  func(*v1.VolumeSource) Usage
}

// traits are the yes-or-no properties of a kind.
type traits uint8

const (
	content  traits = 1 << iota // the agent writes the files, and keeps them up to date
	ownDir                      // the agent makes the directory: on its disk, or in memory
	device                      // the volume may be a block device
	migrated                    // the volume is translated to one of a CSI driver
)

var table = []row{
	{EmptyDir, "empty-dir", func(s *v1.VolumeSource) bool { return s.EmptyDir != nil }, emptyDirSource, ownDir, emptyDirUsage},
	{HostPath, "host-path", func(s *v1.VolumeSource) bool { return s.HostPath != nil }, hostPathSource, 0, always(NotMeasured)},
	{ConfigMap, "configmap", func(s *v1.VolumeSource) bool { return s.ConfigMap != nil }, configMapSource, content | ownDir, always(EphemeralFiles)},
	{Secret, "secret", func(s *v1.VolumeSource) bool { return s.Secret != nil }, secretSource, content | ownDir, always(Files)},
	{DownwardAPI, "downward-api", func(s *v1.VolumeSource) bool { return s.DownwardAPI != nil }, podSource, content | ownDir, always(Files)},
	{Projected, "projected", func(s *v1.VolumeSource) bool { return s.Projected != nil }, projectedSource, content | ownDir, always(Files)},
	{Claim, "persistent-claim", func(s *v1.VolumeSource) bool { return s.PersistentVolumeClaim != nil }, claimSource, device, always(Filesystem)},
	{Ephemeral, "persistent-claim", func(s *v1.VolumeSource) bool { return s.Ephemeral != nil }, ephemeralSource, device, always(NotMeasured)},
	{CSI, "csi", func(s *v1.VolumeSource) bool { return s.CSI != nil }, csiSource, 0, always(NotMeasured)},
	{NFS, "nfs", func(s *v1.VolumeSource) bool { return s.NFS != nil }, nfsSource, 0, always(NotMeasured)},
	{Image, "image", func(s *v1.VolumeSource) bool { return s.Image != nil }, imageSource, 0, always(NotMeasured)},
	{AWSElasticBlockStore, "csi", func(s *v1.VolumeSource) bool { return s.AWSElasticBlockStore != nil }, awsElasticBlockStoreSource, migrated, always(NotMeasured)},
	{AzureDisk, "csi", func(s *v1.VolumeSource) bool { return s.AzureDisk != nil }, azureDiskSource, migrated, always(NotMeasured)},
	{AzureFile, "csi", func(s *v1.VolumeSource) bool { return s.AzureFile != nil }, azureFileSource, migrated, always(NotMeasured)},
	{Cinder, "csi", func(s *v1.VolumeSource) bool { return s.Cinder != nil }, cinderSource, migrated, always(NotMeasured)},
	{GCEPersistentDisk, "csi", func(s *v1.VolumeSource) bool { return s.GCEPersistentDisk != nil }, gcePersistentDiskSource, migrated, always(NotMeasured)},
	{PortworxVolume, "csi", func(s *v1.VolumeSource) bool { return s.PortworxVolume != nil }, portworxVolumeSource, migrated, always(NotMeasured)},
	{VsphereVolume, "csi", func(s *v1.VolumeSource) bool { return s.VsphereVolume != nil }, vsphereVolumeSource, migrated, always(NotMeasured)},
}

// All returns the supported kinds, in the order in which messages list them.
func All() []Kind {
	kinds := make([]Kind, 0, len(table))
	for _, r := range table {
		kinds = append(kinds, r.kind)
	}
	return kinds
}

// List returns the names of kinds for a message.
func List(kinds []Kind) string {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Of returns the kind of a volume, or "" if it is not supported.
func Of(s *v1.VolumeSource) Kind {
	for _, r := range table {
		if r.is(s) {
			return r.kind
		}
	}
	return ""
}

// row returns the row of the kind. A kind that is not supported has no traits, and its plugin is
// "unknown".
func (k Kind) row() row {
	for _, r := range table {
		if r.kind == k {
			return r
		}
	}
	return row{plugin: "unknown", source: func(*v1.VolumeSource) string { return "" }, usage: always(NotMeasured)}
}

// Plugin returns the name of the kubelet's volume plugin for the kind, as metrics have it.
func (k Kind) Plugin() string { return "kubernetes.io/" + k.row().plugin }

// Dir returns the name of the directory below volumes/ that holds the volumes of the kind. It is the
// same as the kubelet's, since tools look there. A migrated volume is among those of CSI drivers.
func (k Kind) Dir() string { return strings.ReplaceAll(k.Plugin(), "/", "~") }

// HasContent reports whether the agent writes the files of such volumes, and keeps them up to date with
// the objects that they are made of.
func (k Kind) HasContent() bool { return k.row().traits&content != 0 }

// OwnDir reports whether the agent makes the directory of such volumes, on its disk or in memory. A read
// of such a directory can't hang, unlike one of a driver, a server or the user.
func (k Kind) OwnDir() bool { return k.row().traits&ownDir != 0 }

// CanBeDevice reports whether such a volume may be a block device, for volumeDevices of a container.
func (k Kind) CanBeDevice() bool { return k.row().traits&device != 0 }

// IsMigrated reports whether such volumes are translated to volumes of a CSI driver.
func (k Kind) IsMigrated() bool { return k.row().traits&migrated != 0 }
