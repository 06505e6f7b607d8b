package csi

import (
	"context"
	"errors"
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
)

// Expansion is a mounted volume, and the size that it gets on this machine.
type Expansion struct {
	Pod   *v1.Pod
	PV    *v1.PersistentVolume // of a CSI driver
	Dir   string               // below the pod's directory
	Bytes int64
}

// ErrCantExpand is the error of Expand if the driver has no NodeExpandVolume.
var ErrCantExpand = errors.New("the CSI driver does not expand volumes on nodes (EXPAND_VOLUME)")

// CanExpand reports whether a driver may have NodeExpandVolume: that of a driver that is not registered is
// not known.
func (m *Manager) CanExpand(driver string) bool {
	d := m.registered(driver)
	return d == nil || d.can[spec.NodeServiceCapability_RPC_EXPAND_VOLUME]
}

func (m *Manager) registered(name string) *driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drivers[name]
}

// Expand lets the driver grow a mounted volume to a size. The call ends with the context.
func (m *Manager) Expand(ctx context.Context, e Expansion) error {
	s := e.PV.Spec.CSI
	id := volumeID{s.Driver, s.VolumeHandle}
	d := m.registered(s.Driver)
	if d == nil {
		return fmt.Errorf("CSI driver %q is not registered on this node", s.Driver)
	}
	if !d.can[spec.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return ErrCantExpand
	}
	secrets, err := m.secret(ctx, e.Pod, s.NodeExpandSecretRef)
	if err != nil {
		return err
	}
	release, err := m.lockVolume(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if err := m.refresh(); err != nil {
		return err
	}
	if _, ok := m.index.recordIn(e.Dir); !ok {
		return fmt.Errorf("%s was unmounted meanwhile", id)
	}
	request := m.expandRequest(&e, d)
	request.Secrets = secrets
	return m.callUntil(ctx, d, "NodeExpandVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodeExpandVolume(ctx, request)
		return err
	})
}

func (m *Manager) expandRequest(e *Expansion, d *driver) *spec.NodeExpandVolumeRequest {
	s := e.PV.Spec.CSI
	r := &Request{
		Pod: e.Pod, Name: e.PV.Name, Driver: s.Driver, Handle: s.VolumeHandle, Dir: e.Dir, FSType: s.FSType, Group: -1,
		MountOptions: e.PV.Spec.MountOptions, AccessModes: e.PV.Spec.AccessModes,
		Block: e.PV.Spec.VolumeMode != nil && *e.PV.Spec.VolumeMode == v1.PersistentVolumeBlock,
	}
	out := &spec.NodeExpandVolumeRequest{
		VolumeId: s.VolumeHandle, VolumePath: m.target(r), CapacityRange: &spec.CapacityRange{RequiredBytes: e.Bytes},
		VolumeCapability: (&job{m: m, r: r, driver: d}).capabilityOf(),
	}
	if d.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		out.StagingTargetPath = m.staging(r)
	}
	return out
}

// Size returns the size that a volume is known to have on this machine, in bytes; 0: it is not known.
func (m *Manager) Size(driver, handle string) (int64, error) {
	if err := m.refresh(); err != nil {
		return 0, err
	}
	return largest(m.index.others(volumeID{driver, handle}, "")), nil
}

// SetSize records the size that a volume has on this machine, for all pods that have it.
func (m *Manager) SetSize(ctx context.Context, driver, handle string, bytes int64) error {
	id := volumeID{driver, handle}
	release, err := m.lockVolume(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if err := m.refresh(); err != nil {
		return err
	}
	for dir, rec := range m.index.others(id, "") {
		if rec.Size == bytes {
			continue
		}
		rec.Size = bytes
		if err := m.save(dir, rec); err != nil {
			return err
		}
	}
	return nil
}

// largest returns the largest size in the records of one volume.
func largest(records map[string]record) int64 {
	var size int64
	for _, r := range records {
		size = max(size, r.Size)
	}
	return size
}
