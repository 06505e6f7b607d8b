package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

// Devices returns the block devices that a container of p gets from the pod's volumes, after Setup.
func (m *Manager) Devices(ctx context.Context, p *v1.Pod, c *v1.Container) ([]render.Device, error) {
	if len(c.VolumeDevices) == 0 {
		return nil, nil
	}
	return guarded(ctx, m.guard, p.UID, func(_ context.Context, t *task) ([]render.Device, error) {
		out := make([]render.Device, 0, len(c.VolumeDevices))
		for _, vd := range c.VolumeDevices {
			t.setStep(fmt.Sprintf("look at the device of volume %q", vd.Name))
			one, err := m.device(p, vd)
			if err != nil {
				return nil, &Error{Volume: vd.Name, Err: err}
			}
			out = append(out, one)
		}
		return out, nil
	})
}

// device resolves one entry of volumeDevices. It checks the device each time, since a runtime would
// pass on whatever is at the path.
func (m *Manager) device(p *v1.Pod, vd v1.VolumeDevice) (render.Device, error) {
	at, ok := m.loadPlace(p.UID, vd.Name)
	switch {
	case !ok:
		return render.Device{}, errNotSetUp
	case !at.block:
		return render.Device{}, errors.New("it is no device (volumeMode Filesystem): name it in volumeMounts")
	}
	path, err := m.cfg.Mounter.BlockDevice(at.path)
	if err != nil {
		return render.Device{}, err
	}
	return render.Device{HostPath: path, ContainerPath: filepath.Join("/", vd.DevicePath), ReadOnly: at.readOnly}, nil
}

// localDevice sets up a local volume of volumeMode Block. Nothing is mounted for it.
func (j *job) localDevice(pv *v1.PersistentVolume) (place, error) {
	source := pv.Spec.Local.Path
	j.task.setStep(fmt.Sprintf("set up persistent volume %q: look at %s", pv.Name, source))
	if !filepath.IsAbs(source) {
		return place{}, fmt.Errorf("local path %q is not an absolute path", source)
	}
	if _, err := j.m.cfg.Mounter.BlockDevice(source); err != nil {
		return place{}, fmt.Errorf("local path: %w", err)
	}
	return place{path: source, block: true}, nil
}
