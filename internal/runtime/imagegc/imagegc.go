// Package imagegc removes unused images, when the disk runs full or when they are old.
//
// Plan decides, and is pure. The Collector lists the images of the runtime, keeps when
// each was last used, and removes the images that Plan chose, periodically and on request.
// It is the only part of berth that removes images without being asked, and the only
// writer of its state file. It never removes an image of a pod or a container, nor a
// pinned one.
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
	// collectInterval is the time between two rounds.
	collectInterval = 5 * time.Minute
	// freeInterval is the least time between two rounds because of Short.
	freeInterval = 30 * time.Second
)

// RuntimeImage is an image of the runtime.
type RuntimeImage struct {
	ID     string
	Names  []string
	Size   int64
	Pinned bool
}

// Config configures a Collector.
type Config struct {
	Policy Policy
	// Images lists the images of the runtime.
	Images func(ctx context.Context) ([]RuntimeImage, error)
	// InUse returns the reasons why images must stay, by ID and by name of the image.
	InUse func(ctx context.Context) (map[string]string, error)
	// Disk measures the file system of the images.
	Disk func(ctx context.Context) (Disk, error)
	// Remove removes an image with all of its names.
	Remove func(ctx context.Context, id string) error
	// Removed is called with each image that was removed: the reason is age or space. It may be nil.
	Removed func(reason string)
	// OnRound is called at the end of each round with the IDs of the images that are left. It
	// may be nil.
	OnRound func(there map[string]bool, began time.Time)
	// Warn is called with one of the reasons below when a round failed, or did not free enough.
	// It may be nil.
	Warn func(reason, message string)
	// Short gets a value when the disk is short of room or inodes, regardless of the policy:
	// then all unused images that are older than MinAge are removed. It may be nil.
	Short <-chan struct{}
	// PodsSynced is closed once all pods are known. Before that no image is removed because of Short:
	// the image of a pod that is still to come may be in no registry. Nil: all pods are known.
	PodsSynced <-chan struct{}
	File       *statefile.File // the state file
	Log        *slog.Logger
}

// Reasons, as users know them from the kubelet.
const (
	// FreeDiskSpaceFailed: all that can be spared is gone, and the disk is still too full.
	FreeDiskSpaceFailed = "FreeDiskSpaceFailed"
	// InvalidDiskCapacity: the file system of images has no size.
	InvalidDiskCapacity = "InvalidDiskCapacity"
	// ImageGCFailed: rounds fail, and not for the first time.
	ImageGCFailed = "ImageGCFailed"
)

// Report is the result of a round.
type Report struct {
	Disk     Disk
	Policy   Policy
	Verdicts []Verdict // images to be removed, or removed, come first
	Freed    int64     // bytes
	Missing  int64     // bytes that are still to be freed
	Errors   []error   // of images that could not be removed
}

// Collector removes images.
type Collector struct {
	Config

	mu      sync.Mutex
	memory  memory
	failing bool // the last round failed, which was logged
}

// New reads the state file. Entries that can't be read are dropped.
func New(c Config) (*Collector, error) {
	if c.Images == nil || c.InUse == nil || c.Disk == nil || c.Remove == nil || c.Log == nil || c.File == nil {
		return nil, errors.New("imagegc: images, inUse, disk, remove, log and file are required")
	}
	if p := c.Policy; p.High < 0 || p.High > 100 || p.Low < 0 || p.Low > p.High {
		return nil, fmt.Errorf("imagegc: thresholds of %d%% and %d%% make no sense", p.High, p.Low)
	}
	return &Collector{Config: c, memory: readMemory(c.File.Path(), c.Log)}, nil
}

// Run makes rounds until ctx ends. The first is a preview that removes nothing: not all pods
// may be known yet.
func (c *Collector) Run(ctx context.Context) {
	var freed time.Time
	collect := func(ctx context.Context) (Report, error) { return c.Preview(ctx, false) }
	for collect != nil {
		report, err := collect(ctx)
		if ctx.Err() == nil {
			c.reportRound(report, err)
		}
		collect, freed = c.next(ctx, freed)
	}
}

// next waits until a round is due and returns Collect or Free, or nil at the end. freed is
// the time of the last Free.
func (c *Collector) next(ctx context.Context, freed time.Time) (collect func(context.Context) (Report, error), _ time.Time) {
	regular, rested, known := time.After(collectInterval), time.After(time.Until(freed.Add(freeInterval))), c.PodsSynced
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

// reportRound logs the first round of a row that failed or freed too little, and the recovery.
// Warn is called from the second on: the first round is a preview, and a round that failed
// once may succeed a moment later.
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
	if errors.Is(err, errNoCapacity) {
		c.Warn(InvalidDiskCapacity, errNoCapacity.Error())
	}
	c.Warn(ImageGCFailed, err.Error())
}

var errNoCapacity = errors.New("invalid capacity 0 on image filesystem")

// fullError: the disk is too full although no more images can be removed. Its message has no
// number that changes all the time, so that repeated events are the same.
type fullError struct{ used, low int }

func (e *fullError) Error() string {
	return fmt.Sprintf("the disk of the images is %d%% full, and should come down to %d%%, but no image can be spared any more: "+
		"look what else is on it, such as images in use, logs and volumes ('berth gc --dry-run' says why each image stays)", e.used, e.low)
}

// Collect makes a round: it removes the images that the policy asks for.
func (c *Collector) Collect(ctx context.Context) (Report, error) { return c.round(ctx, false, true) }

// Free removes all unused images that are older than MinAge, because room is needed for
// something else.
func (c *Collector) Free(ctx context.Context) (Report, error) { return c.round(ctx, true, true) }

// Preview returns what Collect, or Free if all is set, would do now.
func (c *Collector) Preview(ctx context.Context, all bool) (Report, error) {
	return c.round(ctx, all, false)
}

// Size returns the size of an image when it was last present, in bytes, or 0.
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
	if r.Disk.Capacity == 0 {
		return Report{}, errNoCapacity
	}
	r.Verdicts, r.Missing = Plan(images, r.Disk, c.Policy, all, began)
	if remove {
		c.remove(ctx, &r)
		c.endRound(began)
	}
	return r, nil
}

// listImages lists the images of the runtime with their last use, and updates the state file.
// The caller holds the lock.
func (c *Collector) listImages(ctx context.Context, now time.Time) ([]Image, error) {
	// InUse comes before Images: an image that is pulled in between is too young to be removed.
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
			r.Verdicts[n].Remove, r.Verdicts[n].Message = false, err.Error()
			continue
		}
		r.Freed += v.Size
		delete(c.memory.Images, v.ID)
		c.count(v)
		c.Log.Info("image removed", "image", v.Name, "id", v.ID, "bytes", v.Size, "reason", v.Message)
	}
}

func (c *Collector) count(v Verdict) {
	if c.Removed == nil {
		return
	}
	reason := "space"
	if v.Aged {
		reason = "age"
	}
	c.Removed(reason)
}

func (c *Collector) endRound(began time.Time) {
	if c.OnRound == nil {
		return
	}
	there := map[string]bool{}
	for id := range c.memory.Images {
		there[id] = true
	}
	c.OnRound(there, began)
}
