package node

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Available is how much is left, and how much there is in all, of each resource that a machine can
// run out of.
type Available struct {
	Memory                 Amount
	Disk, Inodes           Amount // of the file system that pods write to
	ImageDisk, ImageInodes Amount // of the file system that holds the images
	PIDs                   Amount
}

// Amount is how much is left of a resource. With an All of zero, the resource was not measured
// or has no limit.
type Amount struct{ Left, All int64 }

// Thresholds are how much of each resource has to be left. Below one of them the Node has a
// pressure condition.
type Thresholds struct {
	Memory, Disk, Inodes, ImageDisk, ImageInodes, PIDs Threshold
}

// Threshold is an absolute amount, or a percentage of the whole. The zero value is no threshold.
type Threshold struct {
	Amount  int64
	Percent float64 // used if it is not zero
}

func (t Threshold) of(all int64) int64 {
	if t.Percent == 0 {
		return t.Amount
	}
	return int64(t.Percent / 100 * float64(all))
}

func (t Threshold) quantity(all resource.Quantity) resource.Quantity {
	return *resource.NewQuantity(t.of(all.Value()), all.Format)
}

// Pressure returns the resources of which less is left than their threshold.
func (l Thresholds) Pressure(left Available) Pressure {
	return Pressure{
		Memory: left.Memory.below(l.Memory),
		Disk: left.Disk.below(l.Disk) || left.Inodes.below(l.Inodes) ||
			left.ImageDisk.below(l.ImageDisk) || left.ImageInodes.below(l.ImageInodes),
		PIDs: left.PIDs.below(l.PIDs),
	}
}

func (a Amount) below(t Threshold) bool { return a.All > 0 && a.Left < t.of(a.All) }

// Transition keeps a pressure condition True for a while after there is enough again, so that
// it does not flap.
type Transition struct {
	After time.Duration
	seen  [3]time.Time // when memory, disk and process numbers were last short
}

// Of returns the pressure that the Node shows when p is measured at time now.
func (r *Transition) Of(p Pressure, now time.Time) Pressure {
	out := [3]bool{}
	for i, short := range [3]bool{p.Memory, p.Disk, p.PIDs} {
		if short {
			r.seen[i] = now
		}
		out[i] = short || !r.seen[i].IsZero() && now.Sub(r.seen[i]) < r.After
	}
	return Pressure{Memory: out[0], Disk: out[1], PIDs: out[2]}
}

// Available measures how much is left of the resources of the machine.
func (h Host) Available() (Available, error) {
	var out Available
	var errs []error
	text, err := h.first("proc/meminfo")
	errs = append(errs, err)
	memory := meminfo(string(text))
	out.Memory = Amount{Left: memory["MemAvailable"], All: memory["MemTotal"]}

	out.Disk, out.Inodes, err = room(h.Storage)
	errs = append(errs, err)
	if h.Images != "" {
		out.ImageDisk, out.ImageInodes, err = room(h.Images)
		errs = append(errs, err)
	}
	out.PIDs, err = h.pids()
	return out, errors.Join(append(errs, err)...)
}

// room returns the free bytes and inodes of the file system that a path is on.
func room(path string) (space, inodes Amount, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Amount{}, Amount{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return Amount{Left: int64(fs.Bavail) * fs.Bsize, All: int64(fs.Blocks) * fs.Bsize}, Amount{Left: int64(fs.Ffree), All: int64(fs.Files)}, nil
}

// pids returns how many more processes and threads may be started. Two settings of the
// kernel bound them.
func (h Host) pids() (Amount, error) {
	all := int64(math.MaxInt64)
	for _, setting := range []string{"pid_max", "threads-max"} {
		text, err := h.first("proc/sys/kernel/" + setting)
		if err != nil {
			return Amount{}, err
		}
		most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return Amount{}, fmt.Errorf("read %s: %w", setting, err)
		}
		all = min(all, most)
	}
	load, err := h.first("proc/loadavg") // its fourth word is running/all
	if err != nil {
		return Amount{}, err
	}
	words := strings.Fields(string(load))
	if len(words) < 4 {
		return Amount{}, fmt.Errorf("read loadavg: it has %d words", len(words))
	}
	_, used, _ := strings.Cut(words[3], "/")
	there, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return Amount{}, fmt.Errorf("read loadavg: %w", err)
	}
	return Amount{Left: all - there, All: all}, nil
}
