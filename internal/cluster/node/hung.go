package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// HangTimeout is how long a call to the runtime that concerns the whole node, or the sync loop, may
// go without an answer. Both answer within milliseconds.
const HangTimeout = time.Minute

// HungCall is a call to the runtime without an answer yet.
type HungCall struct {
	Name  string // such as ListContainers
	Since time.Time
	Err   error // why the runtime can't be reached; nil: it can
}

// Hung returns an error that names the calls without an answer for longer than timeout, and for
// how long; nil if there are none.
func Hung(calls []HungCall, now time.Time, timeout time.Duration) error {
	var names []string
	var longest time.Duration
	var err error
	for _, c := range calls {
		if silent := now.Sub(c.Since); silent >= timeout {
			names = append(names, c.Name)
			longest = max(longest, silent)
			if err == nil {
				err = c.Err
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	verb := " has"
	if len(names) > 1 {
		verb = " have"
	}
	text := strings.Join(names, ", ") + verb + " not answered for " + coarse(longest)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return errors.New(text)
}

// coarse rounds a duration, so that the message of a condition does not change each second.
func coarse(d time.Duration) string {
	step := 10 * time.Second
	if d >= time.Minute {
		step = time.Minute
	}
	return d.Truncate(step).String()
}

// loopWatch checks that the sync loop answers. One goroutine uses it.
type loopWatch struct {
	alive func(context.Context) error
	since time.Time // when the first check without an answer began; zero: the loop answers
}

// loopTimeout bounds one check of the sync loop.
const loopTimeout = time.Second

// check waits for an answer of the sync loop, and returns an error if there was none for
// HangTimeout.
func (w *loopWatch) check(ctx context.Context) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	if w.alive == nil || w.alive(ctx) == nil {
		w.since = time.Time{}
		return nil
	}
	if w.since.IsZero() {
		w.since = asked
	}
	if silent := time.Since(w.since); silent >= HangTimeout {
		return fmt.Errorf("it has not gone round for %s", coarse(silent))
	}
	return nil
}
