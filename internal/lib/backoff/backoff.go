// Package backoff computes the pauses between the attempts of an operation that keeps failing.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential is a pause that doubles with each failure in a row, from First to Max.
// apimachinery's wait.Backoff has state of its own and lengthens pauses at random; callers
// here count their failures, and Max is a bound.
type Exponential struct {
	First, Max time.Duration
}

// After returns the pause after so many failures in a row.
func (e Exponential) After(failures int) time.Duration {
	pause := e.First
	for i := 1; i < failures && pause < e.Max; i++ {
		pause *= 2
	}
	return min(pause, e.Max)
}

// Jittered returns After, shortened by up to a half at random, so that the nodes of a cluster
// do not retry at the same moment.
func (e Exponential) Jittered(failures int) time.Duration {
	half := e.After(failures) / 2
	return half + rand.N(half)
}
