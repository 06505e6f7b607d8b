package stats

import "time"

// rates turns CPU time into how much of a CPU is used, from one sample to the
// next. It is keyed by cgroup, and holds those that were sampled last.
type rates map[string]sample

type sample struct {
	at    time.Time
	total uint64
	rate  *uint64 // since the sample before
}

// shortest is the time between two samples that makes a rate.
const shortest = 100 * time.Millisecond

// add stores a sample and returns the rate since the sample before, or nil if there is no recent
// one. A counter that went back has been reset.
func (r rates) add(key string, at time.Time, total *uint64) *uint64 {
	if total == nil {
		return nil
	}
	before, ok := r[key]
	took := at.Sub(before.at)
	if ok && took < shortest {
		return before.rate
	}
	now := sample{at: at, total: *total}
	if ok && took <= rateWithin && *total >= before.total {
		now.rate = new(uint64(float64(*total-before.total) / took.Seconds()))
	}
	r[key] = now
	return now.rate
}

// stale reports whether the next sample makes no rate because the last one is too
// long ago.
func (r rates) stale(now time.Time) bool {
	newest := time.Time{}
	for _, s := range r {
		if s.at.After(newest) {
			newest = s.at
		}
	}
	return now.Sub(newest) > rateWithin
}

// prune drops what was not sampled since a moment.
func (r rates) prune(since time.Time) {
	for key, s := range r {
		if s.at.Before(since) {
			delete(r, key)
		}
	}
}
