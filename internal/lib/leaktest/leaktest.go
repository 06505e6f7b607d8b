// Package leaktest fails the tests of a package that leave goroutines behind.
//
// It takes the place of a library so that go.mod names nothing that only tests need.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// timeout is how long goroutines may take to end after the last test.
const timeout = 10 * time.Second

// standing are functions of goroutines that the Go runtime and package testing start once and never end.
var standing = []string{"os/signal.loop", "os/signal.signal_recv", "runtime.ensureSigM", "runtime.ReadTrace", "runtime/pprof.profileWriter", "testing.(*M).startAlarm"}

// Main runs the tests of a package and ends the process. Tests that passed and left goroutines fail,
// except for goroutines that have a function of ignored on their stack.
func Main(m *testing.M, ignored ...string) {
	code := m.Run()
	if code == 0 {
		if left := wait(timeout, ignored); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines are left after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// wait returns the stacks of the other goroutines, as soon as there are none or the timeout has passed.
func wait(timeout time.Duration, ignored []string) []string {
	end := time.Now().Add(timeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := others(ignored)
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		time.Sleep(pause)
	}
}

// others returns the stacks of all goroutines but that of the caller, without those that are standing
// or ignored.
func others(ignored []string) []string {
	stacks := strings.Split(strings.TrimSpace(all()), "\n\n")
	return slices.DeleteFunc(stacks[1:], func(stack string) bool {
		has := func(function string) bool { return strings.Contains(stack, "\n"+function+"(") }
		return slices.ContainsFunc(standing, has) || slices.ContainsFunc(ignored, has)
	})
}

// all returns the stacks of all goroutines, that of the caller first.
func all() string {
	for size := 1 << 16; ; size *= 2 {
		stacks := make([]byte, size)
		if n := runtime.Stack(stacks, true); n < size {
			return string(stacks[:n])
		}
	}
}
