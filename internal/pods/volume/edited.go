package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/atomicfile"
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

// Edited tells whether a volume of p is set up from another source than p has now.
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

// sharedDir tells whether another volume of the pod has the same directory, because it names the same
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
	podDir, err := podfile.OpenIn(pods, string(uid), unix.O_RDONLY|unix.O_DIRECTORY, podfile.Straight)
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
	in, err := podfile.OpenIn(podDir, strings.TrimPrefix(above, podDir.Name()+"/"), unix.O_RDONLY|unix.O_DIRECTORY, podfile.Straight)
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

// record is kept on disk for a volume that would be taken for the right one after an edit, because
// something is mounted there, and for a persistent volume that the pod holds.
type record struct {
	Dir        string `json:"dir,omitempty"` // below the pod's directory
	Source     string `json:"source"`
	Persistent string `json:"persistentVolume,omitempty"` // the name of the PersistentVolume
	Pod        string `json:"pod,omitempty"`              // namespace/name, for messages
}

func (m *Manager) recordPath(uid pod.UID, volume string) string {
	return filepath.Join(m.cfg.PodsDir, string(uid), sourcesDir, volume)
}

// maxRecord bounds the size of a record, in bytes.
const maxRecord = 1 << 20

// errNoRecord is the error for a file that is no valid record.
var errNoRecord = errors.New("what is written down of a volume can't be understood")

func readRecord(podsDir string, uid pod.UID, volume string) (record, error) {
	text, err := podfile.Read(podsDir, filepath.Join(string(uid), sourcesDir, volume), maxRecord)
	if err != nil {
		return record{}, err
	}
	var r record
	if json.Unmarshal(text, &r) != nil {
		return record{}, errNoRecord
	}
	return r, nil
}

// previousPlace returns the place at which this agent, or the one before it, set up a volume, from
// memory or from the record. It returns false if there is neither.
func (m *Manager) previousPlace(uid pod.UID, volume string) (place, bool) {
	if at, ok := m.loadPlace(uid, volume); ok {
		return at, true
	}
	dir, err := m.podDir(uid)
	if err != nil || checkName(volume) != nil {
		return place{}, false
	}
	r, err := m.readRecord(m.cfg.PodsDir, uid, volume)
	if err != nil {
		return place{}, false
	}
	at := place{source: r.Source, pv: r.Persistent}
	if r.Dir != "" {
		at.dir = filepath.Join(dir, r.Dir)
	}
	return at, r.Dir == "" || filepath.IsLocal(r.Dir)
}

// writeRecord writes the record of a volume, if it needs one and it has changed.
func (j *job) writeRecord(v *v1.Volume, at place) error {
	kind := volumekind.Of(&v.VolumeSource)
	unrecorded := kinds()[kind].unrecorded
	if at.dir == "" && at.pv == "" || kind.HasContent() || unrecorded != nil && unrecorded(&v.VolumeSource) {
		return nil
	}
	known, ok := j.m.previousPlace(j.pod.UID, v.Name)
	if at.dir == "" {
		at.dir = known.dir // the volume is not mounted yet, and may have been before
	}
	if ok && known.source == at.source && known.pv == at.pv && known.dir == at.dir {
		return nil
	}
	r := record{Source: at.source, Persistent: at.pv, Pod: pod.Ref(j.pod)}
	var err error
	if at.dir != "" {
		r.Dir, err = filepath.Rel(j.dir, at.dir)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(r)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(j.dir, sourcesDir), 0o750)
	}
	if err == nil {
		err = j.m.holders.change(func() error { return atomicfile.Replace(j.m.recordPath(j.pod.UID, v.Name), text, 0o600) },
			func() { j.m.holders.put(j.pod.UID, v.Name, r) })
	}
	if err != nil {
		return fmt.Errorf("write down what it is made of: %w", err)
	}
	return nil
}
