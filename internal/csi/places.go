package csi

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
)

// target is what a driver publishes a volume at. Drivers, and those who look after
// them, know these places from the kubelet: a device is not in the pod's directory.
func (m *Manager) target(r *Request) string {
	if r.Block {
		return filepath.Join(m.devicesDir(), "publish", r.Name, string(r.Pod.UID))
	}
	return filepath.Join(r.Dir, "mount")
}

// staging is where a volume is staged.
func (m *Manager) staging(r *Request) string {
	if r.Block {
		return filepath.Join(m.devicesDir(), "staging", r.Name)
	}
	return m.stagingOf(r.id())
}

// stagingOf is where a volume is staged that is no device.
func (m *Manager) stagingOf(v volumeID) string {
	return filepath.Join(m.stagingDir(), v.driver, fmt.Sprintf("%x", sha256.Sum256([]byte(v.handle))), stagedAt)
}

// stagedAt is the place in the directory of a staged volume.
const stagedAt = "globalmount"

func (m *Manager) stagingDir() string { return filepath.Join(m.PluginsDir, "kubernetes.io", "csi") }

func (m *Manager) devicesDir() string { return filepath.Join(m.stagingDir(), "volumeDevices") }
