package csi

import (
	"path/filepath"

	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

// volumeDir returns the directory of a volume below that of its pod.
func (m *Manager) volumeDir(uid pod.UID, name string) string {
	return filepath.Join(m.PodsDir, string(uid), "volumes", volumekind.CSI.Dir(), name)
}

// ownerOf returns the pod of the directory of a volume.
func ownerOf(dir string) pod.UID {
	return pod.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir)))))
}

// restoreRecord returns the record of the volume in a directory of a pod from the copies of records.
// It returns nil if there is no such copy.
func (m *Manager) restoreRecord(dir string) *record {
	uid, name := ownerOf(dir), filepath.Base(dir)
	device, err := m.readRecord(m.deviceCopyDir(name))
	if err != nil {
		device = nil
	}
	var own, persistent *record
	handle := ephemeralHandle(uid, name)
	_ = m.eachCopy(func(dir string) { // directories that can't be listed are skipped
		r, err := m.readRecord(dir)
		switch {
		case err != nil || r == nil:
		case r.Handle == handle:
			own = r
		case r.Name == name && r.Mode != storagev1.VolumeLifecycleEphemeral:
			persistent = r
		}
	}, func(string, error) {})
	switch {
	case own != nil:
		return own
	case persistent != nil:
		return persistent
	case device != nil:
		device.Device = m.deviceTarget(name, uid)
		return device
	default:
		return nil
	}
}
