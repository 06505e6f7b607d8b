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

// Available is how much there is left, and in all, of what a machine can run out of.
type Available struct {
	Memory                 Amount
	Disk, Inodes           Amount // of the file system that pods write to
	ImageDisk, ImageInodes Amount // of the file system that holds the images
	PIDs                   Amount
}

// Amount is what is left of something. One of which there is nothing in all is not
// known, or has no end.
type Amount struct{ Left, All int64 }

// Thresholds are how much has to be left. Below one of them the machine is pressed.
type Thresholds struct {
	Memory, Disk, Inodes, ImageDisk, ImageInodes, PIDs Threshold
}

// Threshold is an amount, or a part of what there is in all. With neither there is none.
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

// Pressure is what a machine runs out of with so much left.
func (l Thresholds) Pressure(left Available) Pressure {
	return Pressure{
		Memory: left.Memory.below(l.Memory),
		Disk: left.Disk.below(l.Disk) || left.Inodes.below(l.Inodes) ||
			left.ImageDisk.below(l.ImageDisk) || left.ImageInodes.below(l.ImageInodes),
		PIDs: left.PIDs.below(l.PIDs),
	}
}

func (a Amount) below(t Threshold) bool { return a.All > 0 && a.Left < t.of(a.All) }

// Transition keeps a pressure up for a while after it is gone, so that a node does not
// go back and forth.
type Transition struct {
	After time.Duration
	seen  [3]time.Time // when memory, disk and process numbers were last short
}

// Of returns the pressure to show at a time when p is felt.
func (r *Transition) Of(p Pressure, now time.Time) Pressure {
	out := [3]bool{}
	for i, felt := range [3]bool{p.Memory, p.Disk, p.PIDs} {
		if felt {
			r.seen[i] = now
		}
		out[i] = felt || !r.seen[i].IsZero() && now.Sub(r.seen[i]) < r.After
	}
	return Pressure{Memory: out[0], Disk: out[1], PIDs: out[2]}
}

// Available looks at what is left of the machine.
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

// room is what is left of the file system that a path is on.
func room(path string) (space, inodes Amount, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Amount{}, Amount{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return Amount{Left: int64(fs.Bavail) * fs.Bsize, All: int64(fs.Blocks) * fs.Bsize}, Amount{Left: int64(fs.Ffree), All: int64(fs.Files)}, nil
}

// pids is how many processes and threads may be started still. Two settings of the
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
