package backoff

import (
	"math"
	"testing"
	"time"
)

func TestPausesDoubleUpToTheMaximum(t *testing.T) {
	e := Exponential{First: 500 * time.Millisecond, Max: 3 * time.Second}
	for failures, want := range map[int]time.Duration{
		0: 500 * time.Millisecond, 1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 4: 3 * time.Second, 5: 3 * time.Second,
		math.MaxInt: 3 * time.Second,
	} {
		if got := e.After(failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
		for range 100 {
			if got := e.Jittered(failures); got < want/2 || got >= want {
				t.Fatalf("after %d failures: %s at random, want %s to %s", failures, got, want/2, want)
			}
			if got := e.Lengthened(failures, 0.5); got < want || got >= want*3/2 {
				t.Fatalf("after %d failures: %s at random, want %s to %s", failures, got, want, want*3/2)
			}
		}
	}
}

func TestAPauseFollowsAnother(t *testing.T) {
	e := Exponential{First: 500 * time.Millisecond, Max: 3 * time.Second}
	for pause, want := range map[time.Duration]time.Duration{
		0: 500 * time.Millisecond, 100 * time.Millisecond: 500 * time.Millisecond, 500 * time.Millisecond: time.Second,
		2 * time.Second: 3 * time.Second, 3 * time.Second: 3 * time.Second, time.Hour: 3 * time.Second,
	} {
		if got := e.Next(pause); got != want {
			t.Errorf("after a pause of %s: %s, want %s", pause, got, want)
		}
	}
}
