package node

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Left is how much there is left, and in all, of what a machine can run out of.
type Left struct {
	Memory, Disk, Inodes, PIDs Amount
}

// Amount is what is left of something. One of which there is nothing in all is not
// known, or has no end.
type Amount struct{ Left, All int64 }

// Limits are how much has to be left. Below one of them the machine is pressed.
type Limits struct {
	Memory, Disk, Inodes, PIDs Threshold
}

// DefaultLimits are those of the kubelet.
func DefaultLimits() Limits {
	return Limits{
		Memory: Threshold{Quantity: resource.MustParse("100Mi")},
		Disk:   Threshold{Percent: 10},
		Inodes: Threshold{Percent: 5},
	}
}

// Pressure is what a machine runs out of with so much left.
func (l Limits) Pressure(left Left) Pressure {
	return Pressure{
		Memory: left.Memory.below(l.Memory),
		Disk:   left.Disk.below(l.Disk) || left.Inodes.below(l.Inodes),
		PIDs:   left.PIDs.below(l.PIDs),
	}
}

func (a Amount) below(t Threshold) bool {
	limit := t.of(*resource.NewQuantity(a.All, resource.BinarySI))
	return a.All > 0 && a.Left < limit.Value()
}

// Relief keeps a pressure up for a while after it is gone, so that a node does not
// go back and forth.
type Relief struct {
	After time.Duration
	seen  [3]time.Time // when memory, disk and process numbers were last short
}

// Of returns the pressure to show at a time when p is felt.
func (r *Relief) Of(p Pressure, now time.Time) Pressure {
	out := [3]bool{}
	for i, felt := range [3]bool{p.Memory, p.Disk, p.PIDs} {
		if felt {
			r.seen[i] = now
		}
		out[i] = felt || !r.seen[i].IsZero() && now.Sub(r.seen[i]) < r.After
	}
	return Pressure{Memory: out[0], Disk: out[1], PIDs: out[2]}
}

// Left looks at what is left of the machine.
func (h Host) Left() (Left, error) {
	var out Left
	var errs []error
	text, err := h.first("proc/meminfo")
	errs = append(errs, err)
	memory := meminfo(string(text))
	out.Memory = Amount{Left: memory["MemAvailable"], All: memory["MemTotal"]}

	var fs unix.Statfs_t
	if err := unix.Statfs(h.Storage, &fs); err != nil {
		errs = append(errs, &os.PathError{Op: "statfs", Path: h.Storage, Err: err})
	}
	out.Disk = Amount{Left: int64(fs.Bavail) * fs.Bsize, All: int64(fs.Blocks) * fs.Bsize}
	out.Inodes = Amount{Left: int64(fs.Ffree), All: int64(fs.Files)}

	out.PIDs, err = h.pids()
	return out, errors.Join(append(errs, err)...)
}

// pids is how many processes may be started still.
func (h Host) pids() (Amount, error) {
	most, err := h.first("proc/sys/kernel/pid_max")
	if err != nil {
		return Amount{}, err
	}
	all, err := strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64)
	if err != nil {
		return Amount{}, fmt.Errorf("read pid_max: %w", err)
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
