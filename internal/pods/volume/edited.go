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

// Whoever gives a static pod a UID of its own can edit its volumes while it runs. A
// volume with another source is another volume, whatever its name: the one from before
// is taken away, and then the new one is made, in one round. Containers that the edit
// changes are stopped before that, see Edited. One that goes on keeps what it sees, since
// its mounts are its own, and gets the new volume with its next start. For its sake no
// data is removed before the pod goes; and if it keeps a driver from taking the old volume
// away, that is tried again until it ends.
//
// What a volume was made of is written down, for an agent that was away during the edit.

// Edited tells whether a volume of p is there and was made of something else than p asks
// for now.
func (m *Manager) Edited(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		at, ok := m.previousPlace(p.UID, v.Name)
		return ok && at.source != sourceOf(&v)
	})
}

// sourceOf names what a volume is made of, as far as that can't change while it is
// there. What configMaps and the like hold is brought up to date in each round; a
// directory of the pod does not lose its data for another sizeLimit.
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

// unmountEdited takes away what a volume was before it was edited.
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

// sharedDir tells whether another volume of the pod is in the same place: the same claim.
func (j *job) sharedDir(volume, dir string) bool {
	return slices.ContainsFunc(j.pod.Spec.Volumes, func(v v1.Volume) bool {
		at, ok := j.m.loadPlace(j.pod.UID, v.Name)
		return v.Name != volume && ok && at.dir == dir
	})
}

// unmountVolume unmounts one volume, in one directory of the pod.
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

// record is what is written down of a volume that would be taken for the right one later,
// because something is mounted there, or that is not the pod's own.
type record struct {
	Dir        string `json:"dir,omitempty"` // below that of the pod
	Source     string `json:"source"`
	Persistent string `json:"persistentVolume,omitempty"` // that the pod holds
	Pod        string `json:"pod,omitempty"`              // as users name it
}

func (m *Manager) recordPath(uid pod.UID, volume string) string {
	return filepath.Join(m.cfg.PodsDir, string(uid), sourcesDir, volume)
}

// maxRecord is more than a record takes.
const maxRecord = 1 << 20

// errNoRecord is returned for a file that holds no record.
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

// previousPlace is what a volume of a pod was until now, as far as this agent, or the one before
// it, has made it. One that can't be read is not known.
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

// writeRecord writes down what a volume is made of, once.
func (j *job) writeRecord(v *v1.Volume, at place) error {
	kind := volumekind.Of(&v.VolumeSource)
	unrecorded := kinds()[kind].unrecorded
	if at.dir == "" && at.pv == "" || kind.HasContent() || unrecorded != nil && unrecorded(&v.VolumeSource) {
		return nil
	}
	known, ok := j.m.previousPlace(j.pod.UID, v.Name)
	if at.dir == "" {
		at.dir = known.dir // it is not known yet where it will be, and may have been before
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
