package volume

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/volumekind"
)

// A disk of a cloud that a pod names is mounted by the CSI driver that has taken over its kind.
func TestMigratedVolumesOfAPod(t *testing.T) {
	for name, c := range map[string]struct {
		source              v1.VolumeSource
		driver, handle, dir string
	}{
		"aws": {
			v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://eu-1a/vol-1", FSType: "ext4"}},
			"ebs.csi.aws.com", "vol-1", "ebs.csi.aws.com-vol-1",
		},
		"azure disk": { // the URI can't name a directory
			v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/subscriptions/1/disks/d", Kind: new(v1.AzureManagedDisk)}},
			"disk.csi.azure.com", "/subscriptions/1/disks/d", "vol",
		},
		"azure file": {
			v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: "azure-storage-account-acme-secret", ShareName: "docs"}},
			"file.csi.azure.com", "#acme#docs#vol#shop", "#acme#docs#vol#shop",
		},
		"cinder":   {v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: "c-1"}}, "cinder.csi.openstack.org", "c-1", "cinder.csi.openstack.org-c-1"},
		"gce":      {v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "pd.csi.storage.gke.io-d"},
		"portworx": {v1.VolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "7"}}, "pxd.portworx.com", "7", "pxd.portworx.com-7"},
		"vsphere":  {v1.VolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] kubevols/a.vmdk"}}, "csi.vsphere.vmware.com", "[ds] kubevols/a.vmdk", "vol"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setup(podWith(c.source))

			r := w.csi.requests[0]
			if r.Driver != c.driver || r.Handle != c.handle || !r.Migrated || r.Block {
				t.Errorf("%s: the driver is asked for %+v", name, r)
			}
			if want := filepath.Join(volumekind.CSI.Dir(), c.dir); filepath.Join(filepath.Base(filepath.Dir(r.Dir)), filepath.Base(r.Dir)) != want {
				t.Errorf("it is mounted in %s, want %s", r.Dir, want)
			}
		})
	}
}

func TestAnUnmanagedDiskCannotBeMigrated(t *testing.T) {
	w := newWorld(t)
	w.setupFails(podWith(v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{Kind: new(v1.AzureDedicatedBlobDisk)}}),
		`volume "vol": translate it to a volume of its CSI driver: kind(Dedicated) is not supported`)
}

func TestMigratedPersistentVolumes(t *testing.T) {
	w := newWorld(t)
	_, pv := w.bind(v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", FSType: "xfs", ReadOnly: true}})
	pv.Spec.MountOptions = []string{"noatime"}
	p := podWith(claimVolume("data"))

	w.setup(p)

	r := w.csi.requests[0]
	if r.Driver != "ebs.csi.aws.com" || r.Handle != "vol-1" || r.FSType != "xfs" || !r.ReadOnly || !r.Migrated || r.Name != "disk" || r.MountOptions[0] != "noatime" {
		t.Errorf("the driver is asked for %+v", r)
	}
	if pv.Spec.CSI != nil || len(pv.Annotations) > 0 {
		t.Error("the volume of the cluster was changed")
	}
}

// The zone of a disk is compared with the label that its CSI driver puts on the node.
func TestTheZoneOfAMigratedVolumeIsThatOfItsDriver(t *testing.T) {
	w := newWorld(t)
	zone := "a"
	w.cfg.NodeLabels = func() map[string]string { return map[string]string{"topology.ebs.csi.aws.com/zone": zone} }
	w.restart()
	_, pv := w.bind(v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}})
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
	w.setup(podWith(claimVolume("data")))

	zone = "b"
	other := podWith(claimVolume("data"))
	other.UID = "u-2"
	w.setupFails(other, "it can't be used on node box")
}

func TestAVolumeOfADriverIsNotMigrated(t *testing.T) {
	w := newWorld(t)
	w.bind(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}})
	w.setup(podWith(claimVolume("data")))
	if w.csi.requests[0].Migrated {
		t.Error("it was of that driver from the beginning")
	}
}
