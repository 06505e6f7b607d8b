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
	"berth/internal/lib/podfile"
)

// recordFile and the first fields of a record are named as the kubelet names them: tools look there.
const recordFile = "vol_data.json"

// record is what is written down of the volume of a pod. It lies in the directory of
// that volume.
type record struct {
	Name   string `json:"specVolID"`
	Handle string `json:"volumeHandle"`
	Driver string `json:"driverName"`
	// Staging is where the volume is staged, or "" if that driver stages nothing.
	Staging string `json:"stagingPath,omitempty"`
	// Mode says that a volume was made for a pod. Kubelets say of others that they are
	// persistent, and do not tell where they are staged.
	Mode storagev1.VolumeLifecycleMode `json:"volumeLifecycleMode,omitempty"`
	// NotAttached says that no cluster attaches it. Without a word on it, one may.
	NotAttached bool `json:"notAttached,omitempty"`
	// Device is where a device is published, or "" if it is a file system.
	Device string `json:"devicePath,omitempty"`
	// Ready says that the pod has it, with its group.
	Ready bool `json:"ready"`
	// Republish says that the driver wants to be asked from time to time to publish it.
	Republish bool `json:"requiresRepublish,omitempty"`
}

func (r record) id() volumeID { return volumeID{r.Driver, r.Handle} }

// attached tells whether a cluster attaches the volume to this node, or may.
func (r record) attached() bool {
	return !r.NotAttached && r.Mode != storagev1.VolumeLifecycleEphemeral
}

// target is where the volume is published whose record lies in dir.
func (r record) target(dir string) string {
	if r.Device != "" {
		return r.Device
	}
	return filepath.Join(dir, "mount")
}

// maxRecord is more than a record takes.
const maxRecord = 1 << 20

// readRecord returns nil if there is none.
func readRecord(dir string) (*record, error) {
	path := filepath.Join(dir, recordFile)
	raw, err := podfile.Read(dir, recordFile, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of a CSI volume: %w", err)
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read what is known of a CSI volume: %s: %w", path, err)
	}
	if r.Driver == "" || r.Handle == "" {
		return nil, fmt.Errorf("read what is known of a CSI volume: %s names no driver or no volume", path)
	}
	return &r, nil
}

// write puts a record in its place, in whole or not at all. Use Manager.save, which keeps
// the index true.
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

// removeRecord removes a record, and one that was begun when its writer was killed. Use
// Manager.remove, which keeps the index true.
func removeRecord(dir string) error {
	for _, name := range []string{recordFile, recordFile + ".new"} {
		if err := removeIfThere(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what is known of a CSI volume: %w", err)
		}
	}
	return nil
}
