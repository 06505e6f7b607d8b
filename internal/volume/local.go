package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// local shows a directory of this machine in the directory of the pod. What is
// mounted there has its group already, so after a restart nothing is walked again.
func (j *job) local(pv *v1.PersistentVolume, readOnly bool) (place, error) {
	at := place{path: j.dataDir(dirLocal, pv.Name), dir: j.dataDir(dirLocal, pv.Name), owned: true}
	mounted, err := j.m.cfg.Mounter.IsMount(at.path)
	if err != nil || mounted {
		return at, err
	}
	source := pv.Spec.Local.Path
	j.task.say(fmt.Sprintf("set up persistent volume %q: look at %s", pv.Name, source))
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
	inUse, err := j.usedByOthers(pv.Name)
	if err != nil {
		return place{}, err
	}
	if j.group >= 0 && !readOnly && !inUse {
		j.task.say(fmt.Sprintf("give persistent volume %q to group %d", pv.Name, j.group))
		if err := giveToGroup(dir, j.group, onRootMismatch(j.pod)); err != nil {
			return place{}, fmt.Errorf("give it to group %d: %w", j.group, err)
		}
	}
	if err := os.MkdirAll(at.path, 0o750); err != nil {
		return place{}, fmt.Errorf("make its directory: %w", err)
	}
	if err := j.m.cfg.Mounter.Bind(dir, at.path); err != nil {
		return place{}, fmt.Errorf("show %s at %s: %w", source, at.path, err)
	}
	return at, nil
}

// usedByOthers tells whether some pod has the volume already: its group stays.
func (j *job) usedByOthers(volume string) (bool, error) {
	mounts, err := j.m.cfg.Mounter.Below(j.m.cfg.PodsDir)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(mounts, func(m MountPoint) bool {
		return filepath.Base(m.Path) == volume && filepath.Base(filepath.Dir(m.Path)) == dirLocal
	}), nil
}

func onRootMismatch(p *v1.Pod) bool {
	policy := p.Spec.SecurityContext.FSGroupChangePolicy
	return policy != nil && *policy == v1.FSGroupChangeOnRootMismatch
}
