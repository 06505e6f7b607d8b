package stats

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/cri"
)

// maxFiles is where counting ends. A volume with more is not told of.
const maxFiles = 1_000_000

var errTooMany = errors.New("too many files")

// look measures a place. It returns nil if that is gone, or too large.
func look(ctx context.Context, p place) *Filesystem {
	out := statfs(p.path)
	if out == nil || !p.count {
		return out
	}
	used, files, err := count(ctx, p.path)
	if err != nil {
		return nil
	}
	out.Used, out.InodesUsed = &used, &files
	return out
}

// statfs is what a file system tells of itself.
func statfs(path string) *Filesystem {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return nil
	}
	size := uint64(s.Bsize)
	return &Filesystem{
		At:   time.Now(),
		Used: new((s.Blocks - min(s.Blocks, s.Bfree)) * size), Available: new(s.Bavail * size), Capacity: new(s.Blocks * size),
		InodesUsed: new(s.Files - min(s.Files, s.Ffree)), InodesFree: new(s.Ffree), Inodes: new(s.Files),
	}
}

// count adds up what is below a directory and on its file system. A file of
// several names counts once, and one that vanishes meanwhile does not count.
func count(ctx context.Context, dir string) (used, files uint64, err error) {
	type inode struct{ dev, ino uint64 }
	seen := map[inode]bool{}
	var device uint64
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && path != dir {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		switch {
		case path == dir:
			device = stat.Dev
		case stat.Dev != device && d.IsDir():
			return fs.SkipDir
		case stat.Dev != device:
			return nil
		}
		if stat.Nlink > 1 && !d.IsDir() {
			id := inode{stat.Dev, stat.Ino}
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		if files++; files > maxFiles {
			return errTooMany
		}
		used += uint64(stat.Blocks) * 512
		return nil
	})
	return used, files, err
}

// readFiles adds what is used of disks and volumes.
func (r *Reader) readFiles(ctx context.Context, s *Snapshot, told told) {
	var places []place
	var give []func(*Filesystem)
	ask := func(p place, to func(*Filesystem)) { places, give = append(places, p), append(give, to) }

	ask(place{path: r.RootDir}, func(f *Filesystem) { s.Node.Root = f })
	r.askForRuntimePlaces(s, told, ask)
	for i := range s.Pods {
		p := &s.Pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			if c.logDir != "" {
				ask(place{c.logDir, true}, func(f *Filesystem) { c.Logs = f })
			}
		}
		for j := range p.spec.Volumes {
			r.askForVolume(p, &p.spec.Volumes[j], ask)
		}
	}
	for i, result := range r.files.measure(ctx, places) {
		if result != nil {
			give[i](result)
		}
	}
}

// askForRuntimePlaces asks for where images and the layers of containers are. The
// runtime knows how much is its own, and the file system how much there is.
func (r *Reader) askForRuntimePlaces(s *Snapshot, told told, ask func(place, func(*Filesystem))) {
	if len(told.places.Images) > 0 {
		images := told.places.Images[0]
		ask(place{path: images.Mountpoint}, func(f *Filesystem) { s.Node.Images = usedOf(f, images) })
	}
	layers := told.places.Containers
	if len(layers) == 0 {
		layers = told.places.Images
	}
	if len(layers) == 0 {
		return
	}
	ask(place{path: layers[0].Mountpoint}, func(f *Filesystem) {
		s.Node.Layers = usedOf(f, layers[0])
		for i := range s.Pods {
			for j := range s.Pods[i].Containers {
				c := &s.Pods[i].Containers[j]
				if t, ok := told.containers[c.ID]; ok && t.Writable.Used != nil {
					c.Writable = usedOf(f, t.Writable)
				}
			}
		}
	})
}

// usedOf is a file system of which one uses what the runtime said.
func usedOf(f *Filesystem, by cri.Filesystem) *Filesystem {
	out := *f
	out.Used, out.InodesUsed = by.Used, by.Inodes
	if !by.At.IsZero() {
		out.At = by.At
	}
	return &out
}

// askForVolume asks for a volume whose use can be told: not one that shows a
// directory of the machine, which is not the pod's alone.
func (r *Reader) askForVolume(p *Pod, v *v1.Volume, ask func(place, func(*Filesystem))) {
	told := Volume{Name: v.Name}
	at := place{}
	switch {
	case v.PersistentVolumeClaim != nil:
		told.Claim = v.PersistentVolumeClaim.ClaimName
	case v.EmptyDir != nil && v.EmptyDir.Medium != v1.StorageMediumDefault: // a file system of its own
	case v.EmptyDir != nil, v.ConfigMap != nil:
		at.count, told.Disk = true, true
	case v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil:
		at.count = true
	default:
		return
	}
	path, ok := r.Volume(p.UID, v.Name)
	if !ok {
		return
	}
	at.path = path
	ask(at, func(f *Filesystem) {
		told.Filesystem = *f
		p.Volumes = append(p.Volumes, told)
	})
}
