package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/pod"
)

// Unmount unpublishes the volume in a directory of a pod, and unstages it if no other pod has it. It
// needs nothing but the disk, and is idempotent.
func (m *Manager) Unmount(ctx context.Context, uid pod.UID, dir string, onStep func(string)) error {
	rec, err := m.readRecord(dir)
	if err != nil {
		m.index.markIncomplete()
		if rec = m.restoreRecord(dir); rec == nil {
			m.warnOnce(dir, unknownVolume, err)
			return m.unmountUnknown(ctx, uid, dir, onStep)
		}
		m.warnOnce(dir, restoredVolume, err)
	}
	if rec == nil {
		m.index.recordGone(dir)
		return nil
	}
	release, err := m.lockVolume(ctx, rec.id())
	if err != nil {
		return err
	}
	defer release()
	d, err := m.driverFor(rec.Driver, uid)
	if err != nil {
		return fmt.Errorf("take %s away: %w", rec.id(), err)
	}
	onStep(fmt.Sprintf("unpublish %s", rec.id()))
	err = m.call(ctx, d, "NodeUnpublishVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodeUnpublishVolume(ctx, &spec.NodeUnpublishVolumeRequest{VolumeId: rec.Handle, TargetPath: rec.target(dir)})
		return err
	})
	if err != nil {
		return err
	}
	if rec.Device != "" {
		if err := removeDevice(rec.Device); err != nil {
			return fmt.Errorf("remove where %s was published: %w", rec.id(), err)
		}
	}
	if err := m.unstage(ctx, d, rec, m.copyDir(*rec), dir, onStep); err != nil {
		return err
	}
	return m.forgetVolume(dir)
}

// forgetVolume removes the record of a volume that is unpublished.
func (m *Manager) forgetVolume(dir string) error {
	if err := m.remove(dir); err != nil {
		return err
	}
	m.reportInUse()
	return nil
}

// unstage unstages a volume unless another pod than that of directory but has it, and removes the copy
// of its record in copyDir.
func (m *Manager) unstage(ctx context.Context, d *driver, rec *record, copyDir, but string, onStep func(string)) error {
	if err := m.refresh(); err != nil {
		return err
	}
	if rec.Mode != storagev1.VolumeLifecycleEphemeral && m.index.claimed(*rec, but) {
		return nil
	}
	undone, err := m.undoStaging(ctx, d, rec, onStep)
	if err == nil && undone {
		err = m.forgetCopy(copyDir)
	}
	if err != nil {
		return fmt.Errorf("clear where %s was staged: %w", rec.id(), err)
	}
	return nil
}

// undoStaging calls NodeUnstageVolume, and removes the staging path. It reports whether nothing is
// staged any more.
func (m *Manager) undoStaging(ctx context.Context, d *driver, rec *record, onStep func(string)) (bool, error) {
	place, err := m.stagingPathOf(rec)
	if err != nil || place == "" {
		return err == nil, err
	}
	if !d.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		return m.removeUnusedStaging(rec, place), nil
	}
	onStep(fmt.Sprintf("unstage %s", rec.id()))
	err = m.call(ctx, d, "NodeUnstageVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodeUnstageVolume(ctx, &spec.NodeUnstageVolumeRequest{VolumeId: rec.Handle, StagingTargetPath: place})
		return err
	})
	if err == nil {
		err = removeIfThere(place)
	}
	return err == nil, err
}

// stagingPathOf returns the staging path of a volume, or "" if it is not staged. If the record does
// not have it, the disk decides: a kubelet may have staged the volume, or the driver stages volumes
// only since then.
func (m *Manager) stagingPathOf(rec *record) (string, error) {
	if rec.Staging != "" || rec.Mode == storagev1.VolumeLifecycleEphemeral {
		return rec.Staging, nil
	}
	place := m.stagingOf(rec.id())
	if rec.Device != "" {
		place = m.deviceStaging(rec.Name)
	}
	_, err := os.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return place, err
}

// removeUnusedStaging removes the staging path of a volume whose driver stages nothing: a kubelet
// makes it nevertheless. If something is left there from a driver that did stage, the copy of the
// record stays, for a driver that can unstage it.
func (m *Manager) removeUnusedStaging(rec *record, place string) bool {
	mounted, err := m.IsMount(place)
	switch {
	case err == nil && mounted:
		err = errors.New("something is mounted there")
	case err == nil:
		err = removeIfThere(place)
	}
	if err != nil {
		m.Log.Warn("a CSI volume may be staged that its driver can't unstage: it stays so until the driver can",
			"volume", rec.id().String(), "dir", place, "err", err)
	}
	return err == nil
}

// forgetCopy removes the copy of a record. Files of a driver beside it stay.
func (m *Manager) forgetCopy(dir string) error {
	if err := m.removeCopy(dir); err != nil {
		return err
	}
	if err := removeIfEmpty(dir); err != nil {
		return err
	}
	if above := filepath.Dir(dir); filepath.Dir(above) == m.devicesDir() {
		return removeIfEmpty(above)
	}
	return nil
}

// unmountUnknown unmounts a volume of a pod that has no readable record, without its driver.
func (m *Manager) unmountUnknown(ctx context.Context, uid pod.UID, dir string, onStep func(string)) error {
	device := m.deviceTarget(filepath.Base(dir), uid)
	for _, target := range []string{record{}.target(dir), device} {
		if mounted, err := m.IsMount(target); err == nil && !mounted {
			continue
		}
		onStep("unmount " + target)
		if err := m.UnmountPath(ctx, target); err != nil {
			return fmt.Errorf("unmount a CSI volume of which nothing is known: %w", err)
		}
	}
	if err := removeDevice(device); err != nil {
		return fmt.Errorf("remove where a device was published: %w", err)
	}
	err := m.unstageUnclaimed(ctx, dir, func(name string) (*driver, error) { return m.driverFor(name, uid) }, onStep)
	if err != nil {
		return err
	}
	if err := m.refresh(); err != nil {
		return err
	}
	m.Log.Warn("a CSI volume was unmounted without its driver, since nothing is known of it: the driver may have something left of it",
		"volume", dir, "unknownStaged", m.index.lostDirs())
	return m.forgetVolume(dir)
}

// unstageUnclaimed unstages the volumes that no pod has, except for the one of directory but. find
// returns nil for a driver that is not to be called.
func (m *Manager) unstageUnclaimed(ctx context.Context, but string, find func(name string) (*driver, error), onStep func(string)) error {
	if err := m.refresh(); err != nil {
		return err
	}
	copies := m.index.allCopies()
	var errs []error
	for dir, rec := range copies {
		if m.index.claimed(rec, but) || !m.isStaged(dir) {
			continue
		}
		d, err := find(rec.Driver)
		if d == nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, m.unstageAlone(ctx, d, &rec, dir, but, onStep))
	}
	return errors.Join(errs...)
}

func (m *Manager) unstageAlone(ctx context.Context, d *driver, rec *record, copyDir, but string, onStep func(string)) error {
	release, err := m.lockVolume(ctx, rec.id())
	if err != nil {
		return err
	}
	defer release()
	return m.unstage(ctx, d, rec, copyDir, but, onStep)
}

// removeDevice removes the target path of a device, if the driver left it, and the directory of the
// device if no other pod has it.
func removeDevice(path string) error {
	if err := removeIfThere(path); err != nil {
		return err
	}
	return removeIfEmpty(filepath.Dir(path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removeIfEmpty(dir string) error {
	if err := removeIfThere(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}
