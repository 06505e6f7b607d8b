package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	l := To(&out)
	klog.SetSlogLogger(l.Logger)
	t.Cleanup(func() {
		klog.ClearLogger()
		_ = l.SetVerbosity(0) // of klog, which all share
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
		if err := l.SetVerbosity(c.verbosity); err != nil {
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
		l := To(write)
		if err := l.Output.Check(time.Now()); err != nil {
			t.Errorf("nothing was written yet: %v", err)
		}
		// given a line that is not read
		done := make(chan struct{})
		go func() {
			l.Info("one")
			close(done)
		}()
		synctest.Wait()
		if err := l.Output.Check(time.Now()); err != nil {
			t.Errorf("a line that is being written: %v", err)
		}
		time.Sleep(time.Minute)
		if err := l.Output.Check(time.Now()); err == nil || !strings.Contains(err.Error(), "for 1m0s") {
			t.Errorf("a line that nobody takes: got %v", err)
		}
		// when it is read, then writes succeed, until the reader closes
		if _, err := read.Read(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		<-done
		if err := l.Output.Check(time.Now()); err != nil {
			t.Errorf("a line that was written: %v", err)
		}
		gone := errors.New("the disk is full")
		_ = read.CloseWithError(gone)
		l.LogAttrs(context.Background(), slog.LevelInfo, "two")
		l.Output.Flush(time.Second)
		if err := l.Output.Check(time.Now()); !errors.Is(err, gone) {
			t.Errorf("a line that could not be written: got %v", err)
		}
	})
}

// A terminal that was stopped, or a pipe without a reader, must not block callers of the log.
func TestALogWithoutAReaderDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given an output that takes nothing
		read, write := io.Pipe()
		l := To(write)
		began := time.Now()
		const lines = 100_000
		// when much is logged
		for i := range lines {
			l.Info("line", "number", i)
		}
		// then it took a moment in all, and what waits is bounded
		if took := time.Since(began); took > waitTimeout {
			t.Errorf("it took %s", took)
		}
		if l.Output.size > maxQueued {
			t.Errorf("%d bytes wait", l.Output.size)
		}
		// and the flush at the end does not wait for long
		l.Output.Flush(FlushTimeout)
		if took := time.Since(began); took > waitTimeout+FlushTimeout {
			t.Errorf("it took %s", took)
		}

		// when it is read again, then it says how much is missing, where it is missing
		var out bytes.Buffer
		done := make(chan struct{})
		go func() { defer close(done); _, _ = io.Copy(&out, read) }()
		synctest.Wait()
		l.Info("after")
		l.Output.Flush(FlushTimeout)
		_ = write.Close()
		<-done
		all := strings.Split(strings.TrimSpace(out.String()), "\n")
		first, missing, last := all[0], all[len(all)-2], all[len(all)-1]
		if !strings.Contains(first, "msg=line number=0") || !strings.Contains(last, "msg=after") {
			t.Errorf("it begins with %q and ends with %q", first, last)
		}
		if want := fmt.Sprint("dropped=", lines-(len(all)-2)); !strings.Contains(missing, want) {
			t.Errorf("%q does not say %s", missing, want)
		}
	})
}

// A slow reader slows down the log, not the agent.
func TestALogThatIsReadSlowlyDoesNotBlockForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := To(writerFunc(func(line []byte) (int, error) {
			time.Sleep(time.Second)
			return len(line), nil
		}))
		waited := time.Duration(0)
		for range 100 {
			began := time.Now()
			l.Info("line")
			waited += time.Since(began)
			time.Sleep(2 * time.Second)
		}
		if most := 5 * waitTimeout; waited > most { // once in each noWaitPeriod
			t.Errorf("those who log waited for %s, want %s at most", waited, most)
		}
		l.Output.Flush(time.Hour)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

// What was logged is written when the call is over: nothing is lost if the agent ends then.
func TestALineIsWrittenBeforeItsCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := To(&out)
		for i := range 1000 {
			l.Info("line", "number", i)
			if want := fmt.Sprintf("number=%d\n", i); !strings.HasSuffix(out.String(), want) {
				t.Fatalf("%q is not written", want)
			}
		}
	})
}

func TestLinesAreJSONIfAskedFor(t *testing.T) {
	var out bytes.Buffer
	l, err := NewJSON(&out, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Info("hello", "pod", "a/b")
	l.Debug("not said")
	l.Output.Flush(time.Minute)
	var line struct {
		TS  float64
		Msg string
		Pod string
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "hello" || line.Pod != "a/b" || line.TS < 1e12 {
		t.Errorf("got %s, %v", out.String(), err)
	}
	if text := l.Output.droppedLine(3); !json.Valid(text) {
		t.Errorf("the line in the place of dropped ones is not JSON: %s", text)
	}
}
