package csi

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"berth/internal/lib/pod"
)

// target is what a driver publishes a volume at. Drivers, and those who look after
// them, know these places from the kubelet: a device is not in the pod's directory.
func (m *Manager) target(r *Request) string {
	if r.Block {
		return m.deviceTarget(r.Name, r.Pod.UID)
	}
	return filepath.Join(r.Dir, "mount")
}

// deviceTarget is where a device is published for a pod.
func (m *Manager) deviceTarget(name string, uid pod.UID) string {
	return filepath.Join(m.publishedDevices(), name, string(uid))
}

// staging is where a volume is staged.
func (m *Manager) staging(r *Request) string {
	if r.Block {
		return m.deviceStaging(r.Name)
	}
	return m.stagingOf(r.id())
}

// stagingOf is where a volume is staged that is no device.
func (m *Manager) stagingOf(v volumeID) string {
	return filepath.Join(m.stagingDir(), v.driver, hash(v.handle), stagingName)
}

// deviceStaging is where a device is staged.
func (m *Manager) deviceStaging(name string) string {
	return filepath.Join(m.stagedDevices(), name)
}

// copyDir is where the other record of a volume lies: beside the place where it is staged,
// or would be if its driver did that.
func (m *Manager) copyDir(r record) string {
	if r.Device != "" {
		return m.deviceCopyDir(r.Name)
	}
	return filepath.Dir(m.stagingOf(r.id()))
}

func (m *Manager) deviceCopyDir(name string) string {
	return filepath.Join(m.devicesDir(), name, "data")
}

// hash makes a name of a directory of what a driver calls a volume.
func hash(handle string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(handle))) }

// stagingName is the place in the directory of a staged volume.
const stagingName = "globalmount"

// devicesName is the directory of all devices, among those of drivers.
const devicesName = "volumeDevices"

func (m *Manager) stagingDir() string { return filepath.Join(m.PluginsDir, "kubernetes.io", "csi") }

func (m *Manager) devicesDir() string { return filepath.Join(m.stagingDir(), devicesName) }

func (m *Manager) stagedDevices() string { return filepath.Join(m.devicesDir(), "staging") }

func (m *Manager) publishedDevices() string { return filepath.Join(m.devicesDir(), "publish") }
