package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/atomicfile"
)

// stateVersion is raised when the form of the state file changes.
const stateVersion = 1

// lastGood is the memory of a source: the pods and other objects that were good, by
// origin. It is the only writer of its file.
type lastGood struct {
	path  string // empty to remember nothing
	in    intake
	wrote []byte // what the file holds
}

// memory is what a lastGood holds.
type memory struct {
	mounted bool // the folder was a mount point
	held    map[string][]object
}

// stateFile is the form of a memory on disk. The objects are manifests: they are
// read back as such, with all checks.
type stateFile struct {
	Version int                          `json:"version"`
	Node    string                       `json:"node"`
	Mounted bool                         `json:"mounted,omitempty"`
	Origins map[string][]json.RawMessage `json:"origins"`
}

// load reads what was remembered. A file that can't be used is set aside, and
// the memory is empty then.
func (l *lastGood) load() (memory, error) {
	empty := memory{held: map[string][]object{}}
	if l.path == "" {
		return empty, nil
	}
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("read the last good pods: %w", err)
	}
	m, err := l.decode(raw)
	if err != nil {
		aside := l.path + ".corrupt"
		return empty, errors.Join(fmt.Errorf("read the last good pods from %s, which is set aside as %s: %w", l.path, aside, err), os.Rename(l.path, aside))
	}
	l.wrote = raw
	return m, nil
}

func (l *lastGood) decode(raw []byte) (memory, error) {
	m := memory{held: map[string][]object{}}
	var s stateFile
	if err := json.Unmarshal(raw, &s); err != nil {
		return m, err
	}
	if s.Version != stateVersion {
		return m, fmt.Errorf("its version is %d, and %d is known", s.Version, stateVersion)
	}
	if s.Node != l.in.node {
		return m, nil // the pods of another node: this one was renamed
	}
	m.mounted = s.Mounted
	for origin, manifests := range s.Origins {
		for _, text := range manifests {
			held, refused := l.in.take(origin, text, nil)
			if len(refused) > 0 {
				return m, fmt.Errorf("a manifest of %s: %s", origin, refused[0].Message)
			}
			m.held[origin] = append(m.held[origin], held...)
		}
	}
	return m, nil
}

// save writes m if it differs from what is on disk. A crash at any moment leaves
// either the old file or the new one.
func (l *lastGood) save(m memory) error {
	if l.path == "" {
		return nil
	}
	raw, err := l.encode(m)
	if err != nil {
		return fmt.Errorf("encode the last good pods: %w", err)
	}
	if bytes.Equal(raw, l.wrote) {
		return nil
	}
	err = os.MkdirAll(filepath.Dir(l.path), 0o700)
	if err == nil {
		err = atomicfile.ReplaceForGood(l.path, raw, 0o600) // manifests may hold secrets
	}
	if err != nil {
		return fmt.Errorf("write the last good pods: %w", err)
	}
	l.wrote = raw
	return nil
}

func (l *lastGood) encode(m memory) ([]byte, error) {
	s := stateFile{Version: stateVersion, Node: l.in.node, Mounted: m.mounted, Origins: map[string][]json.RawMessage{}}
	for origin, held := range m.held {
		for _, o := range held {
			raw, err := json.Marshal(o)
			if err != nil {
				return nil, err
			}
			s.Origins[origin] = append(s.Origins[origin], raw)
		}
	}
	return json.Marshal(s)
}
