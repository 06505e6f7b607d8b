package imagegc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

// memory is what the runtime does not know of its images. It is on disk, so that a
// restart does not make old images look new.
type memory struct {
	Images map[string]use  `json:"images"` // by ID
	Sizes  map[string]size `json:"sizes"`  // by name, of images that were here
}

// use is when an image was of use.
type use struct {
	Seen     time.Time `json:"seen"`
	LastUsed time.Time `json:"lastUsed,omitzero"`
	// InUse says that it still is. Its LastUsed is not written all the time then.
	InUse bool `json:"inUse,omitempty"`
}

// size is how large an image was, and when it was last here.
type size struct {
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`
}

// How much is remembered of images that are gone.
const (
	sizesKept = 30 * 24 * time.Hour
	maxSizes  = 1000
	// day is how exactly it is known when an image was last here.
	day = 24 * time.Hour
)

func readMemory(path string) (memory, error) {
	m := memory{Images: map[string]use{}, Sizes: map[string]size{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	read := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if images := read["images"]; len(images) > 0 {
		var unread error
		m.Images, unread = salvage.Entries[string, use](images)
		err = errors.Join(err, unread)
	}
	if sizes := read["sizes"]; len(sizes) > 0 {
		var unread error
		m.Sizes, unread = salvage.Entries[string, size](sizes)
		err = errors.Join(err, unread)
	}
	if err != nil {
		return m, fmt.Errorf("read when images were used: %w", err)
	}
	return m, nil
}

// save writes the memory down as soon as that can be. A full disk is what images are
// removed for, so it must not be an error.
func (m memory) save(file *statefile.File) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write when images were used: %w", err)
	}
	_ = file.Save(text) // which tries again
	return nil
}

// update takes note of what is there now, and tells whether that is news for the disk.
func (m *memory) update(images []Image, names map[string]int64, now time.Time) (changed bool) {
	there := map[string]bool{}
	for _, i := range images {
		there[i.ID] = true
		was, known := m.Images[i.ID]
		is := was
		if !known {
			is.Seen = now
		}
		is.InUse = i.KeptBy != ""
		if is.InUse || was.InUse {
			is.LastUsed = now
		}
		changed = changed || !known || is.InUse != was.InUse
		m.Images[i.ID] = is
	}
	before := len(m.Images) + len(m.Sizes)
	maps.DeleteFunc(m.Images, func(id string, _ use) bool { return !there[id] })
	maps.DeleteFunc(m.Sizes, func(_ string, s size) bool { return now.Sub(s.At) > sizesKept })
	changed = changed || before != len(m.Images)+len(m.Sizes)
	for name, bytes := range names {
		s, known := m.Sizes[name]
		if known && s.Bytes == bytes && now.Sub(s.At) < day || !known && len(m.Sizes) >= maxSizes {
			continue
		}
		m.Sizes[name] = size{bytes, now}
		changed = true
	}
	return changed
}
