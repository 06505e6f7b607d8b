package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/salvage"
	"berth/internal/lib/statefile"
)

// imageStore is the part of the containerd client that the importer uses.
type imageStore interface {
	importArchive(ctx context.Context, archive io.Reader, prefix string, labels map[string]string) ([]string, error)
	awaitImages(ctx context.Context, names []string) error
	present(ctx context.Context, names []string) (bool, error)
}

// importer imports the image archives of a folder: those that exist, and those that appear. It runs
// as long as one run of containerd.
//
// A file is tried once for each content that it has. Imported archives are on record, by name, size
// and time, and not read again unless their images are gone.
type importer struct {
	dir      string
	record   *statefile.File
	store    imageStore
	imported func(names []string)
	log      *slog.Logger

	settling settleTracker
	recorded map[string]importedArchive // on record
	checked  map[string]stamp           // imported, and containerd was seen to have the images
	refused  map[string]stamp           // archives that could not be imported

	streak logonce.Streak // of passes in which the folder could not be read
}

// importedArchive is the record of an archive whose images were imported.
type importedArchive struct {
	Stamp  stamp    `json:"stamp"`
	Images []string `json:"images"`
}

func newImporter(p paths, record *statefile.File, store imageStore, imported func([]string), log *slog.Logger) *importer {
	return &importer{
		dir: p.images, record: record, store: store, imported: imported, log: log,
		settling: settleTracker{seen: map[string]observation{}},
		checked:  map[string]stamp{},
		refused:  map[string]stamp{},
	}
}

const (
	auditInterval = 5 * time.Minute // between two passes, in case that an event was lost
	batchInterval = 200 * time.Millisecond
)

// run makes a pass through the folder now and after each notice. It calls first when all
// archives that were there at the start are imported or refused.
func (i *importer) run(ctx context.Context, notices <-chan struct{}, first func()) {
	i.recorded = map[string]importedArchive{}
	lost := statefile.Load(i.log, i.record.Path(), "which archives were imported is not known: importing them again", func(content []byte) (err error) {
		i.recorded, err = salvage.Entries[string, importedArchive](content)
		return err
	})

	wait := i.pass(ctx)
	if lost != nil && ctx.Err() == nil {
		i.writeRecord() // Archived can't read the broken one, and image GC depends on it
	}
	next := time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if first != nil && wait == auditInterval { // no file has to be tried again
			first()
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			wait = i.pass(ctx)
			next = time.Now().Add(wait)
			timer.Reset(wait)
		case _, open := <-notices:
			if !open {
				notices = nil
				continue
			}
			// A file that is being written sends many events: one pass is enough for all.
			if soon := time.Now().Add(batchInterval); next.After(soon) {
				next = soon
				timer.Reset(batchInterval)
			}
		}
	}
}

// pass handles each file of the folder once, and returns the time until the next pass is due.
func (i *importer) pass(ctx context.Context) time.Duration {
	next := auditInterval
	present := map[string]bool{}
	entries, err := os.ReadDir(i.dir)
	if err != nil {
		if i.streak.Failed(time.Now()) {
			i.log.Warn("folder of image archives can not be read", "err", err)
		}
		return next
	}
	i.streak.Recovered()
	for _, e := range entries {
		if ctx.Err() != nil {
			return next
		}
		if _, ok := archiveName(e.Name()); !ok {
			continue
		}
		info, err := os.Stat(filepath.Join(i.dir, e.Name())) // through symlinks
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		present[e.Name()] = true
		if wait := i.handleFile(ctx, e.Name(), stampOf(info)); wait > 0 {
			next = min(next, wait)
		}
	}
	maps.DeleteFunc(i.settling.seen, func(name string, _ observation) bool { return !present[name] })
	maps.DeleteFunc(i.checked, func(name string, _ stamp) bool { return !present[name] })
	maps.DeleteFunc(i.refused, func(name string, _ stamp) bool { return !present[name] })
	before := len(i.recorded)
	maps.DeleteFunc(i.recorded, func(name string, _ importedArchive) bool { return !present[name] })
	if len(i.recorded) < before { // their images need not be kept any more
		i.writeRecord()
	}
	return next
}

// handleFile imports an archive, unless it was imported or refused before or may still be
// written. It returns how long to wait before the next try, or 0.
func (i *importer) handleFile(ctx context.Context, name string, is stamp) time.Duration {
	if s, ok := i.checked[name]; ok && s.equal(is) {
		return 0
	}
	if s, ok := i.refused[name]; ok && s.equal(is) {
		return 0
	}
	if t, ok := i.recorded[name]; ok && t.Stamp.equal(is) {
		if there, err := i.store.present(ctx, t.Images); err != nil {
			return retryInterval
		} else if there {
			i.checked[name] = is
			return 0
		}
	}
	if wait := i.settling.remaining(name, time.Now(), is); wait > 0 {
		return wait
	}
	began := time.Now()
	names, err := i.importFile(ctx, name)
	if now, statErr := os.Stat(filepath.Join(i.dir, name)); statErr != nil || !stampOf(now).equal(is) {
		return settleTime // it changed during the import: the result says nothing about it
	}
	switch {
	case err != nil && isUnavailable(err):
		return retryInterval
	case err != nil:
		i.refused[name] = is
		i.log.Error("image archive is not imported: it is tried again when the file changes", "file", name, "err", err)
		return 0
	}
	i.checked[name] = is
	i.recorded[name] = importedArchive{Stamp: is, Images: names}
	i.writeRecord()
	i.log.Info("imported image archive", "file", name, "images", names, "took", time.Since(began).Round(time.Millisecond))
	i.imported(names)
	return 0
}

func (i *importer) writeRecord() {
	content, err := json.MarshalIndent(i.recorded, "", "  ")
	if err != nil {
		i.log.Warn("which archives were imported is not on record: they will be imported again", "err", err)
		return
	}
	_ = i.record.Save(append(content, '\n')) // statefile tries again
}

// retryInterval is the pause after containerd did not answer. Most likely, it has ended, and
// this importer ends with it.
const retryInterval = 5 * time.Second

// importFile imports one archive of the folder, and returns when CRI lists its images.
func (i *importer) importFile(ctx context.Context, name string) ([]string, error) {
	f, err := os.Open(filepath.Join(i.dir, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := checkArchive(f); err != nil {
		return nil, err
	}
	stem, _ := archiveName(name)
	return importImages(ctx, i.store, stem, f)
}

// readRecord reads the record of imported archives for image GC, which must not go on without it:
// it would remove images of the archives that are missing.
func readRecord(path string) (map[string]importedArchive, error) {
	record := map[string]importedArchive{}
	err := statefile.Read(path, func(content []byte) (err error) {
		record, err = salvage.Entries[string, importedArchive](content)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	return record, err
}
