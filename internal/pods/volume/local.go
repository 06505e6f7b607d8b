package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// localDir is the directory below volumes/ that holds local persistent volumes, named as the kubelet names
// it.
const localDir = "kubernetes.io~local-volume"

func persistentLocal(ctx context.Context, j *job, _ string, pv *v1.PersistentVolume, readOnly bool) (place, error) {
	if isBlock(pv) {
		return j.localDevice(pv)
	}
	return j.local(ctx, pv, readOnly)
}

// local bind-mounts a directory of this machine below the directory of the pod. A mount that exists
// has its group already, so after a restart the files are not walked again.
func (j *job) local(ctx context.Context, pv *v1.PersistentVolume, readOnly bool) (place, error) {
	options, others := bindOptions(mountOptions(pv))
	at := place{path: j.volumePath(localDir, pv.Name), dir: j.volumePath(localDir, pv.Name), readOnly: readOnly || slices.Contains(options, "ro")}
	at.relabel = !at.readOnly
	mounted, err := j.m.cfg.Mounter.IsMount(at.path)
	if err != nil || mounted {
		return at, err
	}
	source := pv.Spec.Local.Path
	j.task.setStep(fmt.Sprintf("set up persistent volume %q: look at %s", pv.Name, source))
	if !filepath.IsAbs(source) {
		return place{}, fmt.Errorf("local path %q is not an absolute path", source)
	}
	info, err := os.Stat(source)
	if err != nil {
		return place{}, fmt.Errorf("local path: %w", err)
	}
	if !info.IsDir() {
		return place{}, fmt.Errorf("local path %s is not a directory; for a device, set volumeMode: Block, or mount it, and name the mount point", source)
	}
	dir, err := os.OpenFile(source, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return place{}, fmt.Errorf("local path: %w", err)
	}
	defer dir.Close()
	// Held from the check for other users to the mount: of two pods, only the first one applies its
	// fsGroup.
	j.task.setStep(fmt.Sprintf("set up persistent volume %q: wait for another pod that sets it up", pv.Name))
	release, err := j.m.localLocks.Lock(ctx, filepath.Clean(source))
	if err != nil {
		return place{}, fmt.Errorf("%s is being set up for another pod: %w", source, err)
	}
	defer release()
	if err := j.applyLocalFSGroup(ctx, pv.Name, dir, readOnly || at.readOnly); err != nil {
		return place{}, err
	}
	if err := os.MkdirAll(at.path, 0o750); err != nil {
		return place{}, fmt.Errorf("make its directory: %w", err)
	}
	if err := j.m.cfg.Mounter.Bind(dir, at.path, options); err != nil {
		return place{}, fmt.Errorf("show %s at %s: %w", source, at.path, err)
	}
	if len(others) > 0 {
		j.m.cfg.Warn(j.pod, "UnsupportedMountOption",
			fmt.Sprintf("The mount options %s of volume %s mean nothing for a directory, and are ignored", strings.Join(others, ","), pv.Name))
	}
	return at, nil
}

// applyLocalFSGroup applies the fsGroup of the pod to a local volume that no other pod uses.
func (j *job) applyLocalFSGroup(ctx context.Context, volume string, dir *os.File, readOnly bool) error {
	if j.group < 0 || readOnly {
		return nil
	}
	inUse, err := j.usedByOthers(volume)
	if err != nil {
		return err
	}
	if inUse {
		var st unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
			return &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
		}
		if int(st.Gid) != j.group {
			j.m.cfg.Warn(j.pod, "AlreadyMountedVolume",
				fmt.Sprintf("The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.", j.group, volume, st.Gid))
		}
		return nil
	}
	j.task.setStep(fmt.Sprintf("give persistent volume %q to group %d", volume, j.group))
	return j.applyFSGroup(ctx, dir, volume)
}

// usedByOthers reports whether another pod has the volume mounted. Then its group stays as it is.
func (j *job) usedByOthers(volume string) (bool, error) {
	uids, all, err := j.m.holdersOf(volume)
	for _, uid := range uids {
		at := filepath.Join(j.m.cfg.PodsDir, string(uid), volumesDir, localDir, volume)
		mounted, e := j.m.cfg.Mounter.IsMount(at)
		if mounted {
			return true, nil
		}
		err = errors.Join(err, e)
	}
	if err == nil && all {
		return false, nil
	}
	// The index is not complete: the mount table shows which pods have the volume.
	mounts, err := j.m.cfg.Mounter.Below(j.m.cfg.PodsDir)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(mounts, func(m MountPoint) bool {
		return filepath.Base(m.Path) == volume && filepath.Base(filepath.Dir(m.Path)) == localDir
	}), nil
}

func onRootMismatch(p *v1.Pod) bool {
	policy := p.Spec.SecurityContext.FSGroupChangePolicy
	return policy != nil && *policy == v1.FSGroupChangeOnRootMismatch
}
