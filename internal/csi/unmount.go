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

	"berth/internal/pod"
)

// Unmount takes the volume in a directory of a pod away, and unstages it if no other
// pod has it. It knows nothing but the disk. It is fine if nothing is there.
func (m *Manager) Unmount(ctx context.Context, uid pod.UID, dir string, say func(string)) error {
	rec, err := readRecord(dir)
	if err != nil {
		m.noteUnread(dir, err)
		return m.unmountUnknown(ctx, uid, dir, say)
	}
	if rec == nil {
		return nil
	}
	release, err := m.take(ctx, rec.id())
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
	if rec.Staging == "" && rec.Mode == storagev1.VolumeLifecyclePersistent && d.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		rec.Staging = m.stagingOf(rec.id()) // a kubelet brought it
	}
	if rec.Staging != "" {
		if err := m.unstage(ctx, d, rec, dir, say); err != nil {
			return err
		}
	}
	return m.forgetVolume(dir)
}

// forgetVolume removes a record. Nothing is left of the volume here.
func (m *Manager) forgetVolume(dir string) error {
	if err := removeRecord(dir); err != nil {
		return err
	}
	m.tellInUse()
	return nil
}

func (m *Manager) unstage(ctx context.Context, d *driver, rec *record, dir string, say func(string)) error {
	all, err := m.look(dir)
	if err != nil {
		return err
	}
	if all.claimed(rec.id()) || all.mayBeAnother(dir) {
		return nil
	}
	say(fmt.Sprintf("unstage %s", rec.id()))
	err = m.call(ctx, d, "NodeUnstageVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodeUnstageVolume(ctx, &spec.NodeUnstageVolumeRequest{VolumeId: rec.Handle, StagingTargetPath: rec.Staging})
		return err
	})
	if err != nil {
		return err
	}
	ours := []string{rec.Staging}
	if rec.Device == "" {
		whole := filepath.Dir(rec.Staging)
		ours = append(ours, filepath.Join(whole, recordFile), whole)
	}
	// Empty directories only: what a driver has left is not ours to remove.
	for _, empty := range ours {
		if err := os.Remove(empty); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove where %s was staged: %w", rec.id(), err)
		}
	}
	return nil
}

// unmountUnknown takes away what is mounted for a pod of whose volume nothing is known.
func (m *Manager) unmountUnknown(ctx context.Context, uid pod.UID, dir string, say func(string)) error {
	device := filepath.Join(m.devicesDir(), "publish", filepath.Base(dir), string(uid))
	for _, target := range []string{record{}.target(dir), device} {
		if mounted, err := m.IsMount(target); err == nil && !mounted {
			continue
		}
		say("unmount " + target)
		if err := m.TakeOff(ctx, target); err != nil {
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
	return m.forgetVolume(dir)
}

// unstageUnclaimed unstages what no pod has, but for the one whose directory is named. It
// can't tell as long as there are volumes of which nothing is known. find returns nil for
// a driver that is not to be asked.
func (m *Manager) unstageUnclaimed(ctx context.Context, but string, find func(name string) (*driver, error), say func(string)) error {
	all, err := m.look(but)
	if err != nil || len(all.unread) > 0 {
		return err
	}
	var errs []error
	for dir, rec := range all.staged {
		if all.claimed(rec.id()) {
			continue
		}
		d, err := find(rec.Driver)
		if d == nil {
			errs = append(errs, err)
			continue
		}
		rec.Staging = filepath.Join(dir, stagedAt)
		errs = append(errs, m.unstageAlone(ctx, d, &rec, but, say))
	}
	return errors.Join(errs...)
}

func (m *Manager) unstageAlone(ctx context.Context, d *driver, rec *record, but string, say func(string)) error {
	release, err := m.take(ctx, rec.id())
	if err != nil {
		return err
	}
	defer release()
	return m.unstage(ctx, d, rec, but, say)
}

// removeDevice removes the file at which a device was published, if the driver left it,
// and the directory of all pods that have the device, with the last of them.
func removeDevice(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Remove(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}
