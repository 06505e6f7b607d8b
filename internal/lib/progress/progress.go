// Package progress computes the rate of a transfer, and the time that is left, from readings
// of how many bytes were transferred: of an image that is pulled, or an archive that is sent.
//
// It is pure: the time of a reading is an argument. A Meter belongs to one goroutine at a time.
package progress

import (
	"fmt"
	"strings"
	"time"

	"berth/internal/lib/printable"
)

const (
	// window is the time over which the rate is measured. Runtimes count by the megabyte: over a
	// slow link, the rate of a shorter window would jump between zero and too much.
	window = 30 * time.Second
	// minSpan is the shortest time over which a rate is computed.
	minSpan = time.Second
	// silence is the time without data from which on Progress.Silent is set.
	silence = 15 * time.Second
	// minInterval is the least time between two readings that are kept: of two closer ones, the newer.
	minInterval = time.Second / 2
)

// Progress is the progress of a transfer.
type Progress struct {
	Done  int64 `json:"done,omitempty"`  // bytes
	Total int64 `json:"total,omitempty"` // 0: it is not known
	// Rate is in bytes per second. 0: none, or it is not known yet.
	Rate int64 `json:"rate,omitempty"`
	// Remaining is the time that is left at that rate. 0: it is not known.
	Remaining time.Duration `json:"left,omitempty"` // nanoseconds in JSON, like all durations of Go
	// Silent is the time since the last data. 0: less than 15 seconds.
	Silent time.Duration `json:"silent,omitempty"`
}

// Known reports whether anything is known of the transfer.
func (p Progress) Known() bool { return p.Done > 0 || p.Total > 0 || p.Silent > 0 }

// reading is how many bytes were transferred at a time.
type reading struct {
	at   time.Time
	done int64
}

// Meter makes a Progress out of readings.
type Meter struct {
	readings []reading // of the window, the oldest first
	total    int64
	lastData time.Time // time of the last reading with another count, or of the start
}

// NewMeter returns a meter of a transfer that begins now.
func NewMeter(now time.Time) *Meter { return &Meter{lastData: now} }

// Add adds a reading. If done is less than before, the transfer has begun anew, and older readings
// do not count.
func (m *Meter) Add(done, total int64, now time.Time) {
	m.total = total
	last := len(m.readings) - 1
	if last < 0 || done != m.readings[last].done {
		m.lastData = now
	}
	if last >= 0 && done < m.readings[last].done {
		m.readings = nil
	}
	if n := len(m.readings); n >= 2 && now.Sub(m.readings[n-2].at) < minInterval {
		m.readings = m.readings[:n-1]
	}
	m.readings = append(m.readings, reading{now, done})
	for len(m.readings) > 2 && now.Sub(m.readings[0].at) > window {
		m.readings = m.readings[1:]
	}
}

// Progress computes the progress of the transfer from the readings.
func (m *Meter) Progress(now time.Time) Progress {
	p := Progress{Total: m.total}
	if quiet := now.Sub(m.lastData); quiet >= silence {
		p.Silent = quiet
	}
	if len(m.readings) == 0 {
		return p
	}
	first, last := m.readings[0], m.readings[len(m.readings)-1]
	p.Done = last.done
	took := now.Sub(first.at)
	if p.Silent > 0 || took < minSpan || last.done <= first.done {
		return p
	}
	p.Rate = int64(float64(last.done-first.done) / took.Seconds())
	if p.Rate > 0 && p.Total > p.Done {
		p.Remaining = time.Duration(float64(p.Total-p.Done) / float64(p.Rate) * float64(time.Second))
	}
	return p
}

// String formats what is known of bytes, rate, remaining time and silence: "3.0Mi of 10Mi, 1.0Mi/s,
// 7s left".
func (p Progress) String() string {
	var parts []string
	switch {
	case !p.Known():
		return ""
	case p.Total > 0:
		parts = append(parts, fmt.Sprintf("%s of %s", printable.Bytes(p.Done), printable.Bytes(p.Total)))
	case p.Done > 0:
		parts = append(parts, printable.Bytes(p.Done))
	}
	if p.Rate > 0 {
		parts = append(parts, printable.Bytes(p.Rate)+"/s")
	}
	if p.Remaining > 0 {
		parts = append(parts, p.Remaining.Round(time.Second).String()+" left")
	}
	if p.Silent > 0 {
		parts = append(parts, "nothing came for "+p.Silent.Round(time.Second).String())
	}
	return strings.Join(parts, ", ")
}
