package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"

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

// load reads the file. Claims whose entry can't be used are left out.
func (f *bindingFile) load(log *slog.Logger) bindings {
	if f.file == nil {
		return nil
	}
	var claims bindings
	_ = statefile.Load(log, f.file.Path(), "of some claims it is not known any more which volume they have: they get one as if they were new", func(raw []byte) error {
		var s struct {
			Version int             `json:"version"`
			Claims  json.RawMessage `json:"claims"`
		}
		err := salvage.Fields(raw, &s)
		if err == nil && s.Version != bindingVersion {
			err = fmt.Errorf("its version is %d, and %d is known", s.Version, bindingVersion)
		}
		var unread error
		claims, unread = salvage.Entries[string, string](s.Claims)
		if err = errors.Join(err, unread); err == nil {
			f.saved = claims
		}
		return err
	})
	return claims
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
