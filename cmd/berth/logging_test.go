package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
)

func TestTheVerbosityCanBeChanged(t *testing.T) {
	var out bytes.Buffer
	l := loggingTo(&out)
	klog.SetSlogLogger(l.Logger)
	t.Cleanup(func() {
		klog.ClearLogger()
		_ = l.setVerbosity(0) // of klog, which all share
	})
	for _, c := range []struct {
		verbosity int
		want      string
	}{
		{0, "info"},
		{3, "info"},
		{4, "info debug klog4"},
		{6, "info debug klog4 klog6"},
		{1, "info"},
	} {
		out.Reset()
		if err := l.setVerbosity(c.verbosity); err != nil {
			t.Fatal(err)
		}
		l.Info("info")
		l.Debug("debug")
		klog.V(4).InfoS("klog4")
		klog.V(6).InfoS("klog6")
		var said []string
		for line := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(line, "msg=")
			said = append(said, strings.Fields(text)[0])
		}
		if got := strings.Join(said, " "); got != c.want {
			t.Errorf("verbosity %d: got %q, want %q", c.verbosity, got, c.want)
		}
	}
}

func TestALogThatCanNotBeWrittenIsUnwell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		l := loggingTo(write)
		if err := l.output.check(time.Now()); err != nil {
			t.Errorf("nothing was written yet: %v", err)
		}
		// given a line that nobody takes
		done := make(chan struct{})
		go func() {
			l.Info("one")
			close(done)
		}()
		synctest.Wait()
		if err := l.output.check(time.Now()); err != nil {
			t.Errorf("a line that is being written: %v", err)
		}
		time.Sleep(time.Minute)
		if err := l.output.check(time.Now()); err == nil || !strings.Contains(err.Error(), "for 1m0s") {
			t.Errorf("a line that nobody takes: got %v", err)
		}
		// when somebody takes it, then all is well, until they go
		if _, err := read.Read(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		<-done
		if err := l.output.check(time.Now()); err != nil {
			t.Errorf("a line that was written: %v", err)
		}
		gone := errors.New("the disk is full")
		_ = read.CloseWithError(gone)
		l.LogAttrs(context.Background(), slog.LevelInfo, "two")
		if err := l.output.check(time.Now()); !errors.Is(err, gone) {
			t.Errorf("a line that could not be written: got %v", err)
		}
	})
}
