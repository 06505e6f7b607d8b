//go:build real

package real

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAnAgentWhoseLogNobodyReads(t *testing.T) {
	t.Parallel()
	// given an agent whose stderr is a pipe that is full, and that nobody reads
	n := newNode(t)
	if err := unix.Mkfifo(n.logFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(n.logFile(), os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // who looks for a log after that must not wait for it
		_ = pipe.Close()
		_ = os.Remove(n.logFile())
	})
	if err := pipe.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe is not full: %v", err)
	}

	// when it runs pods, then they come and go as ever
	n.apply("one.yaml", newPod("one", "sleep"))
	n.start("--v", "6")
	n.waitRunning("one")
	n.apply("two.yaml", newPod("two", "sleep"))
	n.remove("one.yaml")
	n.waitRunning("two")
	n.waitGone("one")

	// and it ends when it is told to
	n.stop()
}
