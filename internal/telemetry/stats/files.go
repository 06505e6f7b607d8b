package stats

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/podfile"
	"berth/internal/lib/volumekind"
	"berth/internal/runtime/cri"
)

const (
	// maxFiles is where counting ends. A volume with more files has no stats.
	maxFiles = 1_000_000
	// maxLinked is how many files of several names are remembered while counting.
	maxLinked = 1 << 16
	// maxCounting is how long counting may take: others wait for their turn.
	maxCounting = 2 * time.Minute
)

// measurePlace measures a place and reports how long that took.
func (c Config) measurePlace(ctx context.Context, p place) *Filesystem {
	began := time.Now()
	out := measurePlace(ctx, p)
	if c.OnMeasured != nil {
		source := "statfs"
		if p.count {
			source = "du"
		}
		c.OnMeasured(source, time.Since(began))
	}
	return out
}

// measurePlace measures a place. It returns nil if the place is gone, or has too many files.
func measurePlace(ctx context.Context, p place) *Filesystem {
	out := statfs(p.path)
	if out == nil || !p.count {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, maxCounting)
	defer cancel()
	used, files, err := count(ctx, p.path)
	if err != nil {
		return nil
	}
	out.Used, out.InodesUsed = &used, &files
	return out
}

// statfs returns the numbers of a file system from statfs(2).
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
	root, err := podfile.OpenDir(filepath.Dir(dir), filepath.Base(dir))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = root.Close() }()
	var top unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &top); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	sum := tally{linked: map[uint64]bool{}}
	sum.add(&top, true)
	err = podfile.Walk(ctx, root, maxFiles, func(e podfile.Entry) error {
		if e.Stat.Dev == top.Dev {
			sum.add(e.Stat, e.IsDir())
		}
		return nil
	})
	return sum.blocks * 512, sum.files + uint64(sum.shares), err
}

// tally adds up files of one file system.
type tally struct {
	blocks, files uint64
	linked        map[uint64]bool // inodes of several names that were counted
	shares        float64         // of files with several names that are too many to remember
}

// add counts a file once. Of those with several names that are too many to remember, each
// name counts as its share, which comes to the same if all of the names are below the
// directory.
func (t *tally) add(st *unix.Stat_t, isDir bool) {
	switch {
	case st.Nlink <= 1 || isDir:
	case t.linked[st.Ino]:
		return
	case len(t.linked) >= maxLinked:
		t.blocks += uint64(st.Blocks) / uint64(st.Nlink) //nolint:unconvert // it has 32 bits on arm64
		t.shares += 1 / float64(st.Nlink)
		return
	default:
		t.linked[st.Ino] = true
	}
	t.files++
	t.blocks += uint64(st.Blocks)
}

// readFiles adds what is used of disks and volumes.
func (r *Reader) readFiles(ctx context.Context, s *Snapshot, reported runtimeStats) {
	var places []place
	var setters []func(*Filesystem)
	request := func(p place, to func(*Filesystem)) { places, setters = append(places, p), append(setters, to) }

	request(place{path: r.RootDir}, func(f *Filesystem) { s.Node.Root = f })
	r.requestRuntimePlaces(s, reported, request)
	for i := range s.Pods {
		p := &s.Pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			if c.logDir != "" {
				request(place{c.logDir, true}, func(f *Filesystem) { c.Logs = f })
			}
		}
		for j := range p.spec.Volumes {
			r.requestVolume(p, &p.spec.Volumes[j], request)
		}
	}
	for i, result := range r.files.measure(ctx, places) {
		if result != nil {
			setters[i](result)
		}
	}
}

// requestRuntimePlaces asks for where images and the layers of containers are. The
// runtime knows how much is its own, and the file system how much there is.
func (r *Reader) requestRuntimePlaces(s *Snapshot, reported runtimeStats, request func(place, func(*Filesystem))) {
	if len(reported.places.Images) > 0 {
		images := reported.places.Images[0]
		request(place{path: images.Mountpoint}, func(f *Filesystem) { s.Node.Images = usedOf(f, images) })
	}
	layers := reported.places.Containers
	if len(layers) == 0 {
		layers = reported.places.Images
	}
	if len(layers) == 0 {
		return
	}
	request(place{path: layers[0].Mountpoint}, func(f *Filesystem) {
		s.Node.Layers = usedOf(f, layers[0])
		for i := range s.Pods {
			for j := range s.Pods[i].Containers {
				c := &s.Pods[i].Containers[j]
				if t, ok := reported.containers[c.ID]; ok && t.Writable.Used != nil {
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

// requestVolume requests the measurement of a volume, unless it is a directory of the machine,
// which is not the pod's alone.
func (r *Reader) requestVolume(p *Pod, v *v1.Volume, request func(place, func(*Filesystem))) {
	out := Volume{Name: v.Name}
	at := place{}
	switch volumekind.UsageOf(&v.VolumeSource) {
	case volumekind.NotMeasured:
		return
	case volumekind.Filesystem:
	case volumekind.Files:
		at.count = true
	case volumekind.EphemeralFiles:
		at.count, out.Disk = true, true
	}
	if v.PersistentVolumeClaim != nil {
		out.Claim = v.PersistentVolumeClaim.ClaimName
	}
	path, ok := r.Volume(p.UID, v.Name)
	if !ok {
		return
	}
	at.path = path
	request(at, func(f *Filesystem) {
		out.Filesystem = *f
		p.Volumes = append(p.Volumes, out)
	})
}
