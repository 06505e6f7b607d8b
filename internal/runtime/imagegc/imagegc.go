// Package imagegc removes images that nobody uses, when the disk runs full or when
// they are old.
//
// Plan decides, and is pure. The Collector asks the runtime what there is, remembers
// when each image was last of use, and removes what Plan says, from time to time and
// when somebody asks. It is the only one who removes images by itself, and the only
// writer of the file with its memory. It never removes an image of a pod or a
// container, nor one that is pinned.
package imagegc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"berth/internal/lib/statefile"
)

const (
	// collectInterval is between two rounds.
	collectInterval = 5 * time.Minute
	// freeInterval is between two that are made because the disk is short of something.
	freeInterval = 30 * time.Second
)

// Found is an image as the runtime has it.
type Found struct {
	ID     string
	Names  []string
	Size   int64
	Pinned bool
}

// Config is what a Collector is made of.
type Config struct {
	Policy Policy
	// Images lists what the runtime has.
	Images func(ctx context.Context) ([]Found, error)
	// InUse says why an image may not go, by its ID and by any of its names.
	InUse func(ctx context.Context) (map[string]string, error)
	// Disk measures the file system of the images.
	Disk func(ctx context.Context) (Disk, error)
	// Remove removes an image with all of its names.
	Remove func(ctx context.Context, id string) error
	// Rounds is told which images are there, by ID, at the end of each round. It may be nil.
	Rounds func(there map[string]bool, began time.Time)
	// Warn is told what users should know of a round that did not do what it should, with
	// one of the reasons below. It may be nil.
	Warn func(reason, message string)
	// Short says that the disk is short of room, or of inodes, whatever the policy says:
	// then all goes that can be spared. It may be nil.
	Short <-chan struct{}
	// Known is closed once all pods are known. Before that nothing goes because of Short: the
	// image of a pod that is still to come would be gone for good where nothing can be pulled.
	// It may be nil, if they are.
	Known <-chan struct{}
	File  *statefile.File // holds the memory
	Log   *slog.Logger
}

// Reasons, as users know them from the kubelet.
const (
	// FreeDiskSpaceFailed: all that can be spared is gone, and the disk is still too full.
	FreeDiskSpaceFailed = "FreeDiskSpaceFailed"
	// ImageGCFailed: rounds fail, and not for the first time.
	ImageGCFailed = "ImageGCFailed"
)

// Report is what a round came to.
type Report struct {
	Disk     Disk
	Policy   Policy
	Verdicts []Verdict // those that go, or went, come first
	Freed    int64     // bytes
	Missing  int64     // bytes that there are still too few
	Errors   []error   // of images that could not be removed
}

// Collector removes images.
type Collector struct {
	Config

	mu      sync.Mutex
	memory  memory
	failing bool // and the log says so
}

// New reads the memory. What is broken of it is begun anew.
func New(c Config) (*Collector, error) {
	if c.Images == nil || c.InUse == nil || c.Disk == nil || c.Remove == nil || c.Log == nil || c.File == nil {
		return nil, errors.New("imagegc: images, inUse, disk, remove, log and file are required")
	}
	if p := c.Policy; p.High < 0 || p.High > 100 || p.Low < 0 || p.Low > p.High {
		return nil, fmt.Errorf("imagegc: thresholds of %d%% and %d%% make no sense", p.High, p.Low)
	}
	m, err := readMemory(c.File.Path())
	if err != nil {
		c.Log.Warn("of some images it is not known when they were used: they count as new", "err", err)
	}
	return &Collector{Config: c, memory: m}, nil
}

// Run makes a round now and then, until ctx ends. The first only looks: not all pods
// may be known yet.
func (c *Collector) Run(ctx context.Context) {
	var freed time.Time
	look := func(ctx context.Context) (Report, error) { return c.Preview(ctx, false) }
	for look != nil {
		report, err := look(ctx)
		if ctx.Err() == nil {
			c.reportRound(report, err)
		}
		look, freed = c.next(ctx, freed)
	}
}

// next waits for the next round and returns what it does, or nil at the end. The last one
// that was made for lack of room was at freed.
func (c *Collector) next(ctx context.Context, freed time.Time) (look func(context.Context) (Report, error), _ time.Time) {
	regular, rested, known := time.After(collectInterval), time.After(time.Until(freed.Add(freeInterval))), c.Known
	for {
		short := c.Short
		if rested != nil || known != nil {
			short = nil
		}
		select {
		case <-regular:
			return c.Collect, freed
		case <-rested:
			rested = nil
		case <-known:
			known = nil
		case <-short:
			return c.Free, time.Now()
		case <-ctx.Done():
			return nil, freed
		}
	}
}

// reportRound says what came of a round. The log is told once that there is no room, and once
// that there is again. Users are warned from the second time on: the first look takes
// nothing away, and what fails once may be well a moment later.
func (c *Collector) reportRound(r Report, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && r.Missing > 0 {
		err = &fullError{used: r.Disk.UsedPercent(), low: c.Policy.Low}
	}
	err = errors.Join(append(r.Errors, err)...)
	switch {
	case err != nil && !c.failing:
		c.Log.Warn("can't make room by removing images", "err", err, "missing", r.Missing)
	case err != nil:
		c.warn(err)
	case c.failing:
		c.Log.Info("there is room for images again")
	}
	c.failing = err != nil
}

func (c *Collector) warn(err error) {
	if c.Warn == nil {
		return
	}
	if full := (*fullError)(nil); errors.As(err, &full) {
		c.Warn(FreeDiskSpaceFailed, full.Error())
	}
	c.Warn(ImageGCFailed, err.Error())
}

// fullError is a disk that images can't make room on. It has no number in it that
// changes all the time, so that the same is told of it each time.
type fullError struct{ used, low int }

func (e *fullError) Error() string {
	return fmt.Sprintf("the disk of the images is %d%% full, and should come down to %d%%, but no image can be spared any more: "+
		"look what else is on it, such as images in use, logs and volumes ('berth gc --dry-run' says why each image stays)", e.used, e.low)
}

// Collect makes a round: it removes what has to go by the policy.
func (c *Collector) Collect(ctx context.Context) (Report, error) { return c.round(ctx, false, true) }

// Free removes all that can be spared, because room is needed for something else.
func (c *Collector) Free(ctx context.Context) (Report, error) { return c.round(ctx, true, true) }

// Preview is what Collect, or Free, would do now.
func (c *Collector) Preview(ctx context.Context, all bool) (Report, error) {
	return c.round(ctx, all, false)
}

// Size is how many bytes the image of a name had when it was last here, or 0.
func (c *Collector) Size(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.Sizes[name].Bytes
}

func (c *Collector) round(ctx context.Context, all, remove bool) (Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	images, err := c.listImages(ctx, began)
	if err != nil {
		return Report{}, err
	}
	r := Report{Policy: c.Policy}
	if r.Disk, err = c.Disk(ctx); err != nil {
		return Report{}, err
	}
	r.Verdicts, r.Missing = Plan(images, r.Disk, c.Policy, all, began)
	if remove {
		c.remove(ctx, &r)
		c.endRound(began)
	}
	return r, nil
}

// listImages asks the runtime, and remembers. The caller holds the lock.
func (c *Collector) listImages(ctx context.Context, now time.Time) ([]Image, error) {
	// Who uses what is asked first: an image that is pulled meanwhile is too young to go.
	used, err := c.InUse(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.Images(ctx)
	if err != nil {
		return nil, err
	}
	images, sizes := make([]Image, 0, len(found)), map[string]int64{}
	for _, f := range found {
		i := Image{ID: f.ID, Name: f.ID, Size: f.Size, Pinned: f.Pinned, KeptBy: used[f.ID]}
		for n, name := range f.Names {
			sizes[name] = f.Size
			if n == 0 {
				i.Name = name
			}
			if i.KeptBy == "" {
				i.KeptBy = used[name]
			}
		}
		images = append(images, i)
	}
	if c.memory.update(images, sizes, now) {
		if err := c.memory.save(c.File); err != nil {
			return nil, err
		}
	}
	for n := range images {
		u := c.memory.Images[images[n].ID]
		images[n].Seen, images[n].LastUsed = u.Seen, u.LastUsed
	}
	return images, nil
}

func (c *Collector) remove(ctx context.Context, r *Report) {
	for n, v := range r.Verdicts {
		if !v.Remove || ctx.Err() != nil {
			return
		}
		if err := c.Remove(ctx, v.ID); err != nil {
			r.Errors = append(r.Errors, err)
			r.Verdicts[n].Remove, r.Verdicts[n].Why = false, err.Error()
			continue
		}
		r.Freed += v.Size
		delete(c.memory.Images, v.ID)
		c.Log.Info("image removed", "image", v.Name, "id", v.ID, "bytes", v.Size, "reason", v.Why)
	}
}

func (c *Collector) endRound(began time.Time) {
	if c.Rounds == nil {
		return
	}
	there := map[string]bool{}
	for id := range c.memory.Images {
		there[id] = true
	}
	c.Rounds(there, began)
}
