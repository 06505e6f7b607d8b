package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

// bindingFile keeps bindings over a restart. Local is its only writer.
type bindingFile struct {
	file  *statefile.File // nil to keep nothing
	saved bindings
}

// bindingState is the form of the file.
type bindingState struct {
	Version int      `json:"version"`
	Claims  bindings `json:"claims"`
}

const bindingVersion = 1

// load reads the file. If an entry can't be used, a copy of the file is set aside, and the
// other entries are returned with the error.
func (f *bindingFile) load() (bindings, error) {
	if f.file == nil {
		return nil, nil
	}
	path := f.file.Path()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s struct {
		Version int             `json:"version"`
		Claims  json.RawMessage `json:"claims"`
	}
	claims := bindings{}
	if err = json.Unmarshal(raw, &s); err == nil {
		claims, err = salvage.Entries[string, string](s.Claims)
	}
	if err == nil && s.Version != bindingVersion {
		err = fmt.Errorf("its version is %d, and %d is known", s.Version, bindingVersion)
	}
	if err != nil {
		aside := path + ".corrupt"
		return claims, errors.Join(fmt.Errorf("read %s, of which a copy is set aside as %s: %w", path, aside, err), atomicfile.Replace(aside, raw, 0o600))
	}
	f.saved = claims
	return claims, nil
}

// save writes the file if the bindings changed, atomically and synced to disk: a power cut
// must not give a claim the data of another. A failed write is tried again by statefile.
func (f *bindingFile) save(b bindings) error {
	if f.file == nil || maps.Equal(f.saved, b) {
		return nil
	}
	raw, err := json.Marshal(bindingState{Version: bindingVersion, Claims: b})
	if err != nil {
		return err
	}
	f.saved = b
	_ = f.file.Save(raw) // which tries again
	return nil
}
