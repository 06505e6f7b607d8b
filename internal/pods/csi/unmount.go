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

// Unmount takes the volume in a directory of a pod away, and unstages it if no other
// pod has it. It knows nothing but the disk. It is fine if nothing is there.
func (m *Manager) Unmount(ctx context.Context, uid pod.UID, dir string, say func(string)) error {
	rec, err := m.readRecord(dir)
	if err != nil {
		m.index.markIncomplete()
		if rec = m.restoreRecord(dir); rec == nil {
			m.warnOnce(dir, unknownVolume, err)
			return m.unmountUnknown(ctx, uid, dir, say)
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
	say(fmt.Sprintf("unpublish %s", rec.id()))
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
	if err := m.unstage(ctx, d, rec, m.copyDir(*rec), dir, say); err != nil {
		return err
	}
	return m.forgetVolume(dir)
}

// forgetVolume removes a record. Nothing is left of the volume here.
func (m *Manager) forgetVolume(dir string) error {
	if err := m.remove(dir); err != nil {
		return err
	}
	m.reportInUse()
	return nil
}

// unstage has a volume unstaged, if it is and no pod but that of one directory has it,
// and forgets it. Its other record is in copyDir.
func (m *Manager) unstage(ctx context.Context, d *driver, rec *record, copyDir, but string, say func(string)) error {
	if err := m.refresh(); err != nil {
		return err
	}
	if rec.Mode != storagev1.VolumeLifecycleEphemeral && m.index.claimed(*rec, but) {
		return nil
	}
	undone, err := m.undoStaging(ctx, d, rec, say)
	if err == nil && undone {
		err = m.forgetCopy(copyDir)
	}
	if err != nil {
		return fmt.Errorf("clear where %s was staged: %w", rec.id(), err)
	}
	return nil
}

// undoStaging has the driver unstage a volume, and removes its place. It tells whether
// nothing is staged any more.
func (m *Manager) undoStaging(ctx context.Context, d *driver, rec *record, say func(string)) (bool, error) {
	place, err := m.stagingPathOf(rec)
	if err != nil || place == "" {
		return err == nil, err
	}
	if !d.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		return m.removeUnusedStaging(rec, place), nil
	}
	say(fmt.Sprintf("unstage %s", rec.id()))
	err = m.call(ctx, d, "NodeUnstageVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodeUnstageVolume(ctx, &spec.NodeUnstageVolumeRequest{VolumeId: rec.Handle, StagingTargetPath: place})
		return err
	})
	if err == nil {
		err = removeIfThere(place)
	}
	return err == nil, err
}

// stagingPathOf is where a volume is staged, or may be, or "" if it is not. If its record does
// not tell, then the disk does: a kubelet may have brought it, or the driver may stage
// only since then, for others.
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

// removeUnusedStaging removes the place of a volume whose driver stages nothing: a kubelet makes
// one nevertheless. If the driver once did, and something is left there, then the other
// record stays with it: the driver may come back as one that can undo it.
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

// forgetCopy removes the other record. What a driver has left beside it is not ours to
// remove, and harms nobody.
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

// unmountUnknown takes away what is mounted for a pod of whose volume nothing is known.
func (m *Manager) unmountUnknown(ctx context.Context, uid pod.UID, dir string, say func(string)) error {
	device := m.deviceTarget(filepath.Base(dir), uid)
	for _, target := range []string{record{}.target(dir), device} {
		if mounted, err := m.IsMount(target); err == nil && !mounted {
			continue
		}
		say("unmount " + target)
		if err := m.UnmountPath(ctx, target); err != nil {
			return fmt.Errorf("unmount a CSI volume of which nothing is known: %w", err)
		}
	}
	if err := removeDevice(device); err != nil {
		return fmt.Errorf("remove where a device was published: %w", err)
	}
	err := m.unstageUnclaimed(ctx, dir, func(name string) (*driver, error) { return m.driverFor(name, uid) }, say)
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

// unstageUnclaimed unstages what no pod has, but for the one whose directory is named.
// find returns nil for a driver that is not to be asked.
func (m *Manager) unstageUnclaimed(ctx context.Context, but string, find func(name string) (*driver, error), say func(string)) error {
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
		errs = append(errs, m.unstageAlone(ctx, d, &rec, dir, but, say))
	}
	return errors.Join(errs...)
}

func (m *Manager) unstageAlone(ctx context.Context, d *driver, rec *record, copyDir, but string, say func(string)) error {
	release, err := m.lockVolume(ctx, rec.id())
	if err != nil {
		return err
	}
	defer release()
	return m.unstage(ctx, d, rec, copyDir, but, say)
}

// removeDevice removes the file at which a device was published, if the driver left it,
// and the directory of all pods that have the device, with the last of them.
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
