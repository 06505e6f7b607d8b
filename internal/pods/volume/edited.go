package volume

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/lib/volumekind"
)

// The volumes of a static pod can be edited while it runs, if its manifest has a UID. A volume with
// another source is another volume, even if it has the same name: the old one is unmounted, then the
// new one is set up, in one sync. Containers that the edit changes are stopped before that, see
// Edited. A container that goes on keeps its mounts of the old volume until its next start. For its
// sake no data is removed before the pod goes. If it keeps a CSI driver from unpublishing the old
// volume, that is retried until it ends.
//
// The source of a volume is recorded on disk, for an agent that was not running during the edit.

// Edited reports whether a volume of p is set up from another source than p has now.
func (m *Manager) Edited(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		at, ok := m.previousPlace(p.UID, v.Name)
		return ok && at.source != sourceOf(&v)
	})
}

// sourceOf returns the part of a volume's source that can't change while it is set up, as the record
// has it. A configMap and the like are updated in place, and an emptyDir does not lose its data for a
// new sizeLimit.
func sourceOf(v *v1.Volume) string {
	s := &v.VolumeSource
	kind := volumekind.Of(s)
	if kind.HasContent() {
		return string(kind)
	}
	if identity := kinds()[kind].identity; identity != nil {
		return identity(s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic("volume: a source that can't be encoded: " + err.Error()) // API types always encode
	}
	return string(text)
}

// unmountEdited unmounts a volume whose source was edited, and removes its record.
func (j *job) unmountEdited(ctx context.Context, v *v1.Volume) error {
	at, ok := j.m.previousPlace(j.pod.UID, v.Name)
	if !ok || at.source == sourceOf(v) {
		return nil
	}
	if at.dir != "" && !j.sharedDir(v.Name, at.dir) {
		if err := j.m.unmountVolume(ctx, j.task, j.pod.UID, v.Name, at.dir); err != nil {
			return err
		}
	}
	j.m.deletePlace(j.pod.UID, v.Name)
	err := j.m.holders.change(func() error {
		if err := os.Remove(j.m.recordPath(j.pod.UID, v.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, func() { j.m.holders.forget(j.pod.UID, v.Name) })
	if err != nil {
		return err
	}
	j.m.enqueueWaiting(ctx, j.pod.UID)
	return nil
}

// sharedDir reports whether another volume of the pod has the same directory, because it names the same
// claim.
func (j *job) sharedDir(volume, dir string) bool {
	return slices.ContainsFunc(j.pod.Spec.Volumes, func(v v1.Volume) bool {
		at, ok := j.m.loadPlace(j.pod.UID, v.Name)
		return v.Name != volume && ok && at.dir == dir
	})
}

// unmountVolume unmounts the volume in a directory of the pod, and its subPaths.
func (m *Manager) unmountVolume(ctx context.Context, t *task, uid pod.UID, volume, dir string) error {
	pods, err := openDir(m.cfg.PodsDir)
	if err != nil {
		return err
	}
	defer pods.Close()
	podDir, err := podfile.OpenIn(pods, string(uid), unix.O_RDONLY|unix.O_DIRECTORY, podfile.NoLinksNoMounts)
	if err != nil {
		return err
	}
	defer podDir.Close()
	if err := m.unmountListed(ctx, t, pods, filepath.Join(podDir.Name(), subPathsDir, volume), anyPath); err != nil {
		return err
	}
	if filepath.Base(filepath.Dir(dir)) == volumekind.CSI.Dir() {
		if err := m.cfg.CSI.Unmount(ctx, uid, dir, t.setStep); err != nil {
			return err
		}
	}
	above := filepath.Dir(dir)
	err = m.unmountListed(ctx, t, pods, above, func(path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
	if err != nil {
		return err
	}
	in, err := podfile.OpenIn(podDir, strings.TrimPrefix(above, podDir.Name()+"/"), unix.O_RDONLY|unix.O_DIRECTORY, podfile.NoLinksNoMounts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if err := podfile.Unlink(in, filepath.Base(dir), unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}
