package csi

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"berth/internal/lib/pod"
)

// target returns the target path of NodePublishVolume. The paths are those of the kubelet, which
// drivers know: that of a device is not in the pod's directory.
func (m *Manager) target(r *Request) string {
	if r.Block {
		return m.deviceTarget(r.Name, r.Pod.UID)
	}
	return filepath.Join(r.Dir, "mount")
}

// deviceTarget returns the target path of a device for a pod.
func (m *Manager) deviceTarget(name string, uid pod.UID) string {
	return filepath.Join(m.publishedDevices(), name, string(uid))
}

// staging returns the staging path of a volume.
func (m *Manager) staging(r *Request) string {
	if r.Block {
		return m.deviceStaging(r.Name)
	}
	return m.stagingOf(r.id())
}

// stagingOf returns the staging path of a volume that is no device.
func (m *Manager) stagingOf(v volumeID) string {
	return filepath.Join(m.stagingDir(), v.driver, hash(v.handle), stagingName)
}

// deviceStaging returns the staging path of a device.
func (m *Manager) deviceStaging(name string) string {
	return filepath.Join(m.stagedDevices(), name)
}

// copyDir returns the directory for the copy of a record: beside the staging path, even if the driver
// stages nothing.
func (m *Manager) copyDir(r record) string {
	if r.Device != "" {
		return m.deviceCopyDir(r.Name)
	}
	return filepath.Dir(m.stagingOf(r.id()))
}

func (m *Manager) deviceCopyDir(name string) string {
	return filepath.Join(m.devicesDir(), name, "data")
}

// hash returns a directory name for a volume handle.
func hash(handle string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(handle))) }

// stagingName is the base name of a staging path.
const stagingName = "globalmount"

// devicesName is the directory of devices, among those of drivers.
const devicesName = "volumeDevices"

func (m *Manager) stagingDir() string { return filepath.Join(m.PluginsDir, "kubernetes.io", "csi") }

func (m *Manager) devicesDir() string { return filepath.Join(m.stagingDir(), devicesName) }

func (m *Manager) stagedDevices() string { return filepath.Join(m.devicesDir(), "staging") }

func (m *Manager) publishedDevices() string { return filepath.Join(m.devicesDir(), "publish") }
