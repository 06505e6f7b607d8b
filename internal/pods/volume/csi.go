package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/lib/volumekind"
	"berth/internal/pods/csi"
)

// setupCSI sets up an inline volume, which a CSI driver creates for this pod alone.
func setupCSI(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	if at, ok := j.alreadySetUp(v.Name); ok {
		return at, nil
	}
	s := v.CSI
	r := csi.Request{
		Name: v.Name, Driver: s.Driver, Attributes: s.VolumeAttributes,
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, ReadOnly: ptr.Deref(s.ReadOnly, false),
	}
	if s.FSType != nil {
		r.FSType = *s.FSType
	}
	if s.NodePublishSecretRef != nil {
		r.PublishSecret = &v1.SecretReference{Namespace: j.pod.Namespace, Name: s.NodePublishSecretRef.Name}
	}
	return j.csi(ctx, r)
}

func persistentCSI(ctx context.Context, j *job, _ string, pv *v1.PersistentVolume, readOnly bool) (place, error) {
	s := pv.Spec.CSI
	if s.VolumeHandle == "" {
		return place{}, errors.New("its volumeHandle is empty")
	}
	at, err := j.csi(ctx, csi.Request{
		Name: pv.Name, Driver: s.Driver, Handle: s.VolumeHandle, Attributes: s.VolumeAttributes, FSType: s.FSType,
		MountOptions: pv.Spec.MountOptions, AccessModes: pv.Spec.AccessModes, ReadOnly: readOnly || s.ReadOnly, Block: isBlock(pv),
		StageSecret: s.NodeStageSecretRef, PublishSecret: s.NodePublishSecretRef, Migrated: isMigrated(pv),
		Size: j.claimSize(), Expand: j.expandAtMount(pv, readOnly), SELinuxLabel: j.seLinuxLabel(pv),
	})
	if j.claim != nil && j.expands() {
		at.grows = pv
	}
	return at, err
}

func (j *job) csi(ctx context.Context, r csi.Request) (place, error) {
	r.Pod, r.Dir, r.Group, r.OnStep = j.pod, j.volumePath(volumekind.CSI.Dir(), r.Name), j.group, j.task.setStep
	r.ApplyFSGroup = func(dir string) error {
		root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return fmt.Errorf("give it to group %d: %w", j.group, err)
		}
		defer root.Close()
		return j.applyFSGroup(context.WithoutCancel(ctx), root, r.Name) // it is not broken off, like the calls to the driver
	}
	mounted, err := j.m.cfg.CSI.Mount(ctx, r)
	var waiting *csi.Waiting
	if errors.As(err, &waiting) {
		j.renew(time.Now().Add(pollInterval))
	}
	if err != nil && mounted.Path == "" {
		return place{}, err
	}
	j.renew(mounted.RepublishAt)
	return place{path: mounted.Path, dir: r.Dir, readOnly: r.ReadOnly, relabel: !r.ReadOnly && !mounted.Labelled, block: r.Block, republish: !mounted.RepublishAt.IsZero()}, err
}

// unmountCSI lets the CSI drivers unpublish the volumes of a pod. Only they know what they mounted
// below the volumes directory.
func (m *Manager) unmountCSI(ctx context.Context, t *task, uid pod.UID, podDir *os.File) error {
	dir, err := podfile.OpenIn(podDir, filepath.Join(volumesDir, volumekind.CSI.Dir()), unix.O_RDONLY|unix.O_DIRECTORY, podfile.NoLinksNoMounts)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	var errs []error
	for _, name := range names {
		if err := m.cfg.CSI.Unmount(ctx, uid, filepath.Join(dir.Name(), name), t.setStep); err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
