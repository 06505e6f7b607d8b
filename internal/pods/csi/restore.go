package csi

import (
	"path/filepath"

	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

// volumeDir is the directory of a volume in that of its pod.
func (m *Manager) volumeDir(uid pod.UID, name string) string {
	return filepath.Join(m.PodsDir, string(uid), "volumes", volumekind.CSI.Dir(), name)
}

// ownerOf is the pod in whose directory that of a volume is.
func ownerOf(dir string) pod.UID {
	return pod.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir)))))
}

// restoreRecord finds out by the other records what the volume in a directory of a pod is, whose
// own record can't be read. It returns nil if they don't tell either.
func (m *Manager) restoreRecord(dir string) *record {
	uid, name := ownerOf(dir), filepath.Base(dir)
	device, err := m.readRecord(m.deviceCopyDir(name))
	if err != nil {
		device = nil
	}
	var own, persistent *record
	handle := ephemeralHandle(uid, name)
	_ = m.eachCopy(func(dir string) { // what can't be listed tells nothing
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
