package crilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/lib/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func newReader(t testing.TB) *Reader {
	t.Helper()
	r := NewReader(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the reader: %v", err)
		}
	})
	return r
}

func writeLog(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func line(text string) string { return stamp + " stdout F " + text + "\n" }

func TestCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeLog(t, path, line("one")+line("two")+line("three"))
	cases := []struct {
		name string
		o    Options
		want string
	}{
		{"all", Options{Tail: -1}, "one\ntwo\nthree\n"},
		{"the last", Options{Tail: 1}, "three\n"},
		{"none", Options{Tail: 0}, ""},
		{"with times", Options{Tail: 1, Timestamps: true}, stamp + " three\n"},
		{"as many bytes as may be", Options{Tail: -1, LimitBytes: 6}, "one\ntw"},
		{"fewer bytes than may be", Options{Tail: -1, LimitBytes: 100}, "one\ntwo\nthree\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := newReader(t).Copy(t.Context(), &out, path, c.o); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestCopyOfNoFile(t *testing.T) {
	for _, follow := range []bool{false, true} {
		err := newReader(t).Copy(t.Context(), io.Discard, filepath.Join(t.TempDir(), "0.log"), Options{Follow: follow})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("follow=%v: got %v, want that it does not exist", follow, err)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestCopyToABrokenWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeLog(t, path, line("one"))
	for _, follow := range []bool{false, true} {
		err := newReader(t).Copy(t.Context(), brokenWriter{}, path, Options{Tail: -1, Follow: follow})
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("follow=%v: got %v, want the writer's error", follow, err)
		}
	}
}

// following is a log that is followed by a test.
type following struct {
	t    *testing.T
	path string
	out  *io.PipeReader
	end  chan error
	done chan struct{}
}

func follow(t *testing.T, ctx context.Context, path string, o Options) *following {
	t.Helper()
	r, w := io.Pipe()
	f := &following{t: t, path: path, out: r, end: make(chan error, 1), done: make(chan struct{})}
	o.Follow, o.Done = true, f.done
	reader := newReader(t)
	go func() {
		err := reader.Copy(ctx, w, path, o)
		f.end <- err
		_ = w.Close()
	}()
	t.Cleanup(func() { _ = r.Close() })
	return f
}

func (f *following) want(text string) {
	f.t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(f.out, got); err != nil || string(got) != text {
		f.t.Fatalf("got %q (%v), want %q", got, err, text)
	}
}

func (f *following) wantEnd(want error) {
	f.t.Helper()
	if rest, _ := io.ReadAll(f.out); len(rest) > 0 {
		f.t.Errorf("got %q, want no more", rest)
	}
	if err := <-f.end; !errors.Is(err, want) {
		f.t.Errorf("Copy ended with %v, want %v", err, want)
	}
}

func TestFollow(t *testing.T) {
	t.Run("goes on with what is added, until the container has ended", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "0.log")
		writeLog(t, path, line("zero")+line("one"))
		f := follow(t, t.Context(), path, Options{Tail: 1})
		f.want("one\n")
		writeLog(t, path, line("two"))
		f.want("two\n")
		writeLog(t, path, stamp+" stdout F th")
		f.want("th")
		writeLog(t, path, "ree\n"+line("four"))
		f.want("ree\nfour\n")
		close(f.done)
		f.wantEnd(nil)
	})
	t.Run("has everything even if the container ended before", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "0.log")
		writeLog(t, path, logOf(5000, ""))
		f := follow(t, t.Context(), path, Options{Tail: -1})
		close(f.done)
		f.want(decodeAll(Options{}, logOf(5000, "")))
		f.wantEnd(nil)
	})
	t.Run("has what is written just after the container ended", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "0.log")
		writeLog(t, path, "")
		f := follow(t, t.Context(), path, Options{Tail: -1})
		close(f.done)
		writeLog(t, path, line("last words"))
		f.want("last words\n")
		f.wantEnd(nil)
	})
	t.Run("ends with its context", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "0.log")
		writeLog(t, path, line("one"))
		ctx, cancel := context.WithCancel(t.Context())
		f := follow(t, ctx, path, Options{Tail: -1})
		f.want("one\n")
		cancel()
		f.wantEnd(context.Canceled)
	})
	t.Run("ends at its limit", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "0.log")
		writeLog(t, path, line("one"))
		f := follow(t, t.Context(), path, Options{Tail: -1, LimitBytes: 6})
		f.want("one\n")
		writeLog(t, path, line("two"))
		f.want("tw")
		f.wantEnd(nil)
	})
}

func TestFollowAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	rotate := func(n int) string {
		to := fmt.Sprintf("%s.2026010203040%d", path, n)
		if err := os.Rename(path, to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	writeLog(t, path, line("one"))
	f := follow(t, t.Context(), path, Options{Tail: -1})
	f.want("one\n")

	// When the log is renamed, the runtime still writes to the old file for a moment
	old := rotate(1)
	writeLog(t, old, line("two"))
	f.want("two\n")
	writeLog(t, path, "")
	writeLog(t, old, line("three")+stamp+" stdout P fo\n")
	f.want("three\nfo")
	// Then the new file takes over, and a line in two parts is still one line
	writeLog(t, path, stamp+" stdout F ur\n")
	f.want("ur\n")

	// When it is rotated again, and the container ends before the new file has anything
	rotate(2)
	writeLog(t, path, "")
	close(f.done)
	f.wantEnd(nil)
}

func TestFollowOfALogThatIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeLog(t, path, line("one")+line("two"))
	f := follow(t, t.Context(), path, Options{Tail: -1})
	f.want("one\ntwo\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	writeLog(t, path, line("three"))
	f.want("three\n")
	close(f.done)
	f.wantEnd(nil)
}

func TestManyFollowTheSameFolder(t *testing.T) {
	// Given more followers than a user may have inotify instances
	path := filepath.Join(t.TempDir(), "0.log")
	writeLog(t, path, "")
	reader := newReader(t)
	done := make(chan struct{})
	results := make(chan string)
	const followers = 200
	for range followers {
		go func() {
			var out strings.Builder
			if err := reader.Copy(t.Context(), &out, path, Options{Tail: -1, Follow: true, Done: done}); err != nil {
				results <- err.Error()
				return
			}
			results <- out.String()
		}()
	}
	// When one line is written and the container ends
	writeLog(t, path, line("one"))
	close(done)
	// Then all have read it
	for range followers {
		if got := <-results; got != "one\n" {
			t.Errorf("got %q, want the line", got)
		}
	}
	// And nothing is watched any more
	if left := reader.changes.inotify.WatchList(); len(left) > 0 {
		t.Errorf("%v are still watched", left)
	}
}

func TestFollowAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeLog(t, path, "")
	reader := newReader(t)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reader.Copy(t.Context(), io.Discard, path, Options{Follow: true}); err == nil {
		t.Error("a closed reader follows, want an error")
	}
}

func BenchmarkCopy(b *testing.B) {
	path := filepath.Join(b.TempDir(), "0.log")
	log := logOf(100_000, " some text of a usual length, as a server writes it for each request")
	writeLog(b, path, log)
	for _, tail := range []int64{-1, 100} {
		b.Run(fmt.Sprintf("tail=%d", tail), func(b *testing.B) {
			reader := newReader(b)
			if tail < 0 {
				b.SetBytes(int64(len(log)))
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := reader.Copy(b.Context(), io.Discard, path, Options{Tail: tail}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
