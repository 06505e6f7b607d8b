package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Policy says when images are removed. Percentages are of the file system of the images.
type Policy struct {
	High, Low int           // usage from which on images are removed, and down to which
	MinAge    time.Duration // younger images stay
	MaxAge    time.Duration // images that were unused for longer are removed; 0: no limit
}

// Image is an image of the runtime, with its use.
type Image struct {
	ID       string
	Name     string // for people
	Size     int64
	Pinned   bool
	KeptBy   string // why it is in use; empty if it is not
	Seen     time.Time
	LastUsed time.Time // zero if it was never used
}

// lastUsed returns when an image was last used or, if it never was, first seen.
func (i Image) lastUsed() time.Time {
	if i.LastUsed.IsZero() {
		return i.Seen
	}
	return i.LastUsed
}

// Disk is the file system of the images, in bytes.
type Disk struct{ Capacity, Available int64 }

// UsedPercent returns how much of the file system is used.
func (d Disk) UsedPercent() int {
	if d.Capacity <= 0 {
		return 0
	}
	return int(100 - d.Available*100/d.Capacity)
}

// Verdict is the decision about an image, with the reason.
type Verdict struct {
	Image
	Remove  bool
	Aged    bool // it is removed because of MaxAge, and not for its room
	Message string
}

// Plan decides which images are removed. They come first in the result, the least recently
// used image before the others. all asks for all unused images that are older than MinAge,
// however much room there is.
// It reads no clock and touches nothing.
//
// missing is how many bytes are to be freed beyond that.
func Plan(images []Image, d Disk, p Policy, all bool, now time.Time) (verdicts []Verdict, missing int64) {
	images = slices.Clone(images)
	slices.SortStableFunc(images, func(a, b Image) int {
		return cmp.Or(a.lastUsed().Compare(b.lastUsed()), a.Seen.Compare(b.Seen), cmp.Compare(a.ID, b.ID))
	})
	var goes, stays []Verdict
	toFree := roomToMake(d, p)
	aim := toFree > 0
	for _, i := range images {
		v := Verdict{Image: i}
		unused := now.Sub(i.lastUsed())
		switch {
		case i.KeptBy != "":
			v.Message = i.KeptBy
		case i.Pinned:
			v.Message = "it is pinned"
		case p.MaxAge > 0 && unused > p.MaxAge:
			v.Remove, v.Aged, v.Message = true, true, fmt.Sprintf("not used for %s, which is more than %s", rounded(unused), p.MaxAge)
		case now.Sub(i.Seen) < p.MinAge:
			v.Message = fmt.Sprintf("it came %s ago, and stays for %s", rounded(now.Sub(i.Seen)), p.MinAge)
		case all:
			v.Remove, v.Message = true, fmt.Sprintf("not used for %s, and room is needed", rounded(unused))
		case toFree > 0:
			v.Remove, v.Message = true, fmt.Sprintf("not used for %s, and the disk is %d%% full", rounded(unused), d.UsedPercent())
		case aim:
			v.Message = fmt.Sprintf("not used for %s, but those before it are enough", rounded(unused))
		default:
			v.Message = fmt.Sprintf("not used for %s, and the disk is %d%% full: images go from %d%% on", rounded(unused), d.UsedPercent(), p.High)
		}
		if v.Remove {
			toFree -= i.Size
			goes = append(goes, v)
			continue
		}
		stays = append(stays, v)
	}
	return append(goes, stays...), max(toFree, 0)
}

// roomToMake returns how many bytes have to be freed, or 0.
func roomToMake(d Disk, p Policy) int64 {
	if d.Capacity <= 0 || d.UsedPercent() < p.High {
		return 0
	}
	return max(d.Capacity*int64(100-p.Low)/100-d.Available, 0)
}

func rounded(d time.Duration) time.Duration {
	switch {
	case d > 48*time.Hour:
		return d.Round(time.Hour)
	case d > time.Hour:
		return d.Round(time.Minute)
	}
	return d.Round(time.Second)
}
