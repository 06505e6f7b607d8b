package volume

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
	"berth/internal/lib/volumekind"
)

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

func readRecord(podsDir string, uid pod.UID, volume string) (record, error) {
	return statefile.ReadRecord[record](podsDir, filepath.Join(string(uid), sourcesDir, volume))
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
