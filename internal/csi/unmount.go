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

	"berth/internal/pod"
)

// Unmount takes the volume in a directory of a pod away, and unstages it if no other
// pod has it. It knows nothing but the disk. It is fine if nothing is there.
func (m *Manager) Unmount(ctx context.Context, uid pod.UID, dir string, say func(string)) error {
	rec, err := readRecord(dir)
	if err != nil || rec == nil {
		return err
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
	if rec.Staging != "" {
		if err := m.unstage(ctx, d, rec, dir, say); err != nil {
			return err
		}
	}
	return removeRecord(dir)
}

func (m *Manager) unstage(ctx context.Context, d *driver, rec *record, dir string, say func(string)) error {
	others, err := m.others(dir)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.id() == rec.id() {
			return nil
		}
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
		ours = append(ours, filepath.Dir(rec.Staging))
	}
	// Empty directories only: what a driver has left is not ours to remove.
	for _, empty := range ours {
		if err := os.Remove(empty); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove where %s was staged: %w", rec.id(), err)
		}
	}
	return nil
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
