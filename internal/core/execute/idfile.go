package execute

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

// Some facts about sandboxes and containers have to outlive the agent, and the runtime doesn't
// know them. Their ids are written to files in the pod's directory, which are removed
// with the pod. An id is never used twice, so those of containers that are gone do no harm.

// idFile is the JSON of such a file.
type idFile struct {
	IDs []string `json:"ids"`
}

// readIDs returns the ids in a file of a pod. A file that does not exist has none.
func (e *Executor) readIDs(uid pod.UID, name string) (map[string]bool, error) {
	out := map[string]bool{}
	read, err := statefile.ReadRecord[idFile](e.Host.PodsDir, filepath.Join(string(uid), name))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	for _, id := range read.IDs {
		out[id] = true
	}
	return out, nil
}

// writeIDs replaces the ids in a file of a pod. Without ids the file is removed.
func (e *Executor) writeIDs(uid pod.UID, name string, ids map[string]bool) error {
	path := filepath.Join(e.podDir(uid), name)
	if len(ids) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(idFile{IDs: slices.Sorted(maps.Keys(ids))})
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, data, 0o600)
}
