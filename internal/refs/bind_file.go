package refs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"berth/internal/atomicfile"
)

// bindingFile remembers bindings over a restart. Local is its only writer.
type bindingFile struct {
	path  string // empty to remember nothing
	wrote bindings
}

// bindingState is the form of the file.
type bindingState struct {
	Version int      `json:"version"`
	Claims  bindings `json:"claims"`
}

const bindingVersion = 1

// load reads the file. One that can't be used is set aside.
func (f *bindingFile) load() (bindings, error) {
	if f.path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s bindingState
	err = json.Unmarshal(raw, &s)
	if err == nil && s.Version != bindingVersion {
		err = fmt.Errorf("its version is %d, and %d is known", s.Version, bindingVersion)
	}
	if err != nil {
		aside := f.path + ".corrupt"
		return nil, errors.Join(fmt.Errorf("read %s, which is set aside as %s: %w", f.path, aside, err), os.Rename(f.path, aside))
	}
	f.wrote = s.Claims
	return s.Claims, nil
}

// save writes the file if it would be another one, in one step and for good: a power
// cut must not give a claim the data of another.
func (f *bindingFile) save(b bindings) error {
	if f.path == "" || maps.Equal(f.wrote, b) {
		return nil
	}
	raw, err := json.Marshal(bindingState{Version: bindingVersion, Claims: b})
	if err != nil {
		return err
	}
	if err := atomicfile.ReplaceForGood(f.path, raw, 0o600); err != nil {
		return err
	}
	f.wrote = b
	return nil
}
