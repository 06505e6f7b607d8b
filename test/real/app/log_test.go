//go:build real

package app

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/real/kit"
)

func TestAnAgentWhoseLogIsNotRead(t *testing.T) {
	t.Parallel()
	// given an agent whose stderr is a full pipe without a reader
	n := kit.NewNode(t)
	if err := unix.Mkfifo(n.LogFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(n.LogFile(), os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // who looks for a log after that must not wait for it
		_ = pipe.Close()
		_ = os.Remove(n.LogFile())
	})
	if err := pipe.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe is not full: %v", err)
	}

	// when it runs pods, then they come and go as ever
	n.Apply("one.yaml", kit.NewPod("one", "sleep"))
	n.Start("--v", "6")
	n.WaitRunning("one")
	n.Apply("two.yaml", kit.NewPod("two", "sleep"))
	n.RemoveManifest("one.yaml")
	n.WaitRunning("two")
	n.WaitGone("one")

	// and it ends at a signal
	n.Stop()
}
