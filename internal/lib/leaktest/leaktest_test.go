package leaktest

import (
	"strings"
	"testing"
	"time"
)

func parked(started, release <-chan struct{}) {
	<-started
	<-release
}

func TestAGoroutineThatIsLeftIsFound(t *testing.T) {
	const function = "berth/internal/lib/leaktest.parked"
	ignoreTests := []string{"testing.tRunner", "testing.(*M).Run"} // the goroutines that wait for this test

	// given a goroutine that nothing ends
	started, release := make(chan struct{}), make(chan struct{})
	go parked(started, release)
	started <- struct{}{}

	// then its stack is returned
	left := wait(0, ignoreTests)
	if len(left) != 1 || !strings.Contains(left[0], function) {
		t.Errorf("got %q, want the stack of %s", left, function)
	}

	// but not if it is ignored
	if left := wait(0, append(ignoreTests, function)); len(left) != 0 {
		t.Errorf("got %q of an ignored function", left)
	}

	// when it ends, then nothing is left
	close(release)
	if left := wait(time.Minute, ignoreTests); len(left) != 0 {
		t.Errorf("got %q after the goroutine ended", left)
	}
}
