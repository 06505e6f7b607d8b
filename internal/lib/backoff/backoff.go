// Package backoff computes the pauses between the attempts of an operation that keeps failing.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential is a pause that doubles with each failure in a row, from First to Max. It has no
// state: callers count their failures (After), or store the pause itself (Next).
// apimachinery's wait.Backoff has state of its own, and Max is no bound there.
type Exponential struct {
	First, Max time.Duration
}

// After returns the pause after so many failures in a row.
func (e Exponential) After(failures int) time.Duration {
	pause := e.Next(0)
	for i := 1; i < failures && pause < e.Max; i++ {
		pause = e.Next(pause)
	}
	return pause
}

// Next returns the pause that follows a pause: twice as long, but at least First and at most Max.
func (e Exponential) Next(pause time.Duration) time.Duration {
	return min(max(2*pause, e.First), e.Max)
}

// Jittered returns After, shortened by up to a half at random, so that the nodes of a cluster
// do not retry at the same moment.
func (e Exponential) Jittered(failures int) time.Duration {
	half := e.After(failures) / 2
	return half + rand.N(half)
}

// Lengthened returns After, lengthened at random by up to this part of it, for callers whose pauses
// must not be shorter than After.
func (e Exponential) Lengthened(failures int, part float64) time.Duration {
	pause := e.After(failures)
	return pause + time.Duration(rand.Float64()*part*float64(pause))
}
