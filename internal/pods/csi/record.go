package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/statefile"
)

// recordFile is the file name of a record. Tools look for it and for the first fields of a record,
// whose names are the kubelet's.
const recordFile = "vol_data.json"

// record is the file of one volume in a pod, in the directory of that volume.
type record struct {
	Name   string `json:"specVolID"`
	Handle string `json:"volumeHandle"`
	Driver string `json:"driverName"`
	// Staging is the staging path, or "" if the driver stages nothing.
	Staging string `json:"stagingPath,omitempty"`
	// Mode is Ephemeral for an ephemeral volume. Kubelets write Persistent for others, and no staging
	// path.
	Mode storagev1.VolumeLifecycleMode `json:"volumeLifecycleMode,omitempty"`
	// NotAttached says that the volume need not be attached. Records of kubelets do not have it.
	NotAttached bool `json:"notAttached,omitempty"`
	// Device is the target path of a device, or "" for a file system.
	Device string `json:"devicePath,omitempty"`
	// Ready says that the volume is published, and has its fsGroup and its size.
	Ready bool `json:"ready"`
	// Size is the size that the volume is known to have on this machine, in bytes; 0: it is not known.
	Size int64 `json:"sizeBytes,omitempty"`
	// SELinuxLabel is the label of the mount option context, or "".
	SELinuxLabel string `json:"seLinuxMountContext,omitempty"`
	// FileLabel is the SELinux label of files that the pod needs, also if the runtime sets it, or "".
	FileLabel string `json:"seLinuxFileLabel,omitempty"`
	// Republish says that the driver has requiresRepublish.
	Republish bool `json:"requiresRepublish,omitempty"`
}

func (r record) id() volumeID { return volumeID{r.Driver, r.Handle} }

// attached reports whether the cluster attaches the volume, or may do so.
func (r record) attached() bool {
	return !r.NotAttached && r.Mode != storagev1.VolumeLifecycleEphemeral
}

// target returns the target path of the volume whose record is in dir.
func (r record) target(dir string) string {
	if r.Device != "" {
		return r.Device
	}
	return filepath.Join(dir, "mount")
}

// readRecord returns nil if there is no record.
func readRecord(dir string) (*record, error) {
	r, err := statefile.ReadRecord[record](dir, recordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of a CSI volume: %w", err)
	}
	if r.Driver == "" || r.Handle == "" {
		return nil, fmt.Errorf("read what is known of a CSI volume: %s names no driver or no volume", filepath.Join(dir, recordFile))
	}
	return &r, nil
}

// write replaces the file of a record. Only Manager.save calls it, which updates the index.
func (r record) write(dir string) error {
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(dir, 0o750)
	}
	if err == nil {
		err = atomicfile.ReplaceForGood(filepath.Join(dir, recordFile), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down a CSI volume: %w", err)
	}
	return nil
}

// removeRecord removes a record, and a half-written one. Only Manager.remove calls it, which updates
// the index.
func removeRecord(dir string) error {
	for _, name := range []string{recordFile, recordFile + ".new"} {
		if err := removeIfThere(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what is known of a CSI volume: %w", err)
		}
	}
	return nil
}
