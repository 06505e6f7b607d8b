package imagegc

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

// memory is the content of the state file: when images were used, and their sizes. It is on
// disk, so that a restart does not make old images look new.
type memory struct {
	Images map[string]use  `json:"images"` // by ID
	Sizes  map[string]size `json:"sizes"`  // by name, of images that were here
}

// use is when an image was first seen and last used.
type use struct {
	Seen     time.Time `json:"seen"`
	LastUsed time.Time `json:"lastUsed,omitzero"`
	// InUse: the image is in use. Its LastUsed is not written all the time then.
	InUse bool `json:"inUse,omitempty"`
}

// size is the size of an image, and when it was last present.
type size struct {
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`
}

// Limits of the sizes that are kept of removed images.
const (
	sizesKept = 30 * 24 * time.Hour
	maxSizes  = 1000
	// day is the precision of size.At: it is written once a day.
	day = 24 * time.Hour
)

func readMemory(path string, log *slog.Logger) memory {
	m := memory{Images: map[string]use{}, Sizes: map[string]size{}}
	_ = statefile.Load(log, path, "of some images it is not known when they were used: they count as new", func(text []byte) error {
		var parts struct {
			Images json.RawMessage `json:"images"`
			Sizes  json.RawMessage `json:"sizes"`
		}
		err := salvage.Fields(text, &parts)
		if len(parts.Images) > 0 {
			var unread error
			m.Images, unread = salvage.Entries[string, use](parts.Images)
			err = errors.Join(err, unread)
		}
		if len(parts.Sizes) > 0 {
			var unread error
			m.Sizes, unread = salvage.Entries[string, size](parts.Sizes)
			err = errors.Join(err, unread)
		}
		return err
	})
	return m
}

// save writes the state file, which is tried again if it fails. A full disk is the reason to
// remove images, so it must not be an error.
func (m memory) save(file *statefile.File) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write when images were used: %w", err)
	}
	_ = file.Save(text) // statefile tries again
	return nil
}

// update records the present images, and reports whether the state file has to be written.
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
