package crilog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// podLog is the path of a log, as a runtime would make it.
func podLog(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "default_web_1", "app", "0.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// zeros is a log of zeros that counts the bytes that are read.
type zeros struct{ read int64 }

func (z *zeros) ReadAt(b []byte, _ int64) (int, error) {
	clear(b)
	z.read += int64(len(b))
	return len(b), nil
}

func TestTailOfALogWithoutLineEnds(t *testing.T) {
	const size = 1 << 40
	var log zeros
	at, err := tailOffset(t.Context(), &log, size, 5)
	if limit := int64(6 * (maxLine + 2*tailBlock)); err != nil || size-at > limit || log.read > limit {
		t.Errorf("read %d bytes, and would print %d, %v; want at most %d", log.read, size-at, err, limit)
	}
	// and a search that takes long ends with its context
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tailOffset(ctx, &log, size, 1<<40); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTailAfterALineThatIsTooLong(t *testing.T) {
	log := line("first") + strings.Repeat("x", 3*maxLine) + "\n" + line("last")
	for n, want := range map[int64]string{1: "last\n", 2: "x\nlast\n", 50: "x\nlast\n"} {
		at, err := tailOffset(t.Context(), strings.NewReader(log), int64(len(log)), n)
		if err != nil {
			t.Fatal(err)
		}
		got := decodeAll(Options{}, log[at:])
		if !strings.HasSuffix(got, want) || n == 2 && len(got) > 2*maxLine {
			t.Errorf("the last %d lines are %d bytes, and end with %q", n, len(got), got[max(0, len(got)-20):])
		}
		if n == 50 && !strings.HasPrefix(got, "first\n") {
			t.Errorf("all lines begin with %.20q", got)
		}
	}
}

func TestLogsThatNoRuntimeMade(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret", "app", "0.log")
	if err := errors.Join(os.MkdirAll(filepath.Dir(secret), 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(path string) error{
		"a pipe":                         func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory":                    func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":                         func(path string) error { return os.Symlink(secret, path) },
		"a link to a device":             func(path string) error { return os.Symlink("/dev/zero", path) },
		"a link for the container's dir": func(path string) error { return replaceByLink(filepath.Dir(path), filepath.Dir(secret)) },
		"a link for the pod's dir": func(path string) error {
			return replaceByLink(filepath.Dir(filepath.Dir(path)), filepath.Dir(filepath.Dir(secret)))
		},
	}
	for name, trick := range cases {
		t.Run(name, func(t *testing.T) {
			path := podLog(t)
			if err := trick(path); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			close(done)
			for _, o := range []Options{{Tail: -1}, {Tail: 5}, {Follow: true, Done: done}, {Tail: 5, LimitBytes: 10, Follow: true, Done: done}} {
				var out bytes.Buffer
				err := newReader(t).Copy(t.Context(), &out, path, o)
				if err == nil || !strings.Contains(err.Error(), "is not as the runtime made it") || out.Len() > 0 {
					t.Errorf("%+v: got %q, %v", o, out.String(), err)
				}
			}
			if got := LastLines(path, 80, 2048); got != "" {
				t.Errorf("the last lines are %q", got)
			}
			if err := Check(path); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is fine: %v", err)
			}
		})
	}
}

func replaceByLink(dir, target string) error {
	return errors.Join(os.RemoveAll(dir), os.Symlink(target, dir))
}

func TestALinkToTheDirectoryOfAllLogsIsFollowed(t *testing.T) {
	path := podLog(t)
	writeLog(t, path, line("one"))
	all := filepath.Join(t.TempDir(), "pods")
	if err := os.Symlink(filepath.Dir(filepath.Dir(filepath.Dir(path))), all); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := newReader(t).Copy(t.Context(), &out, filepath.Join(all, "default_web_1", "app", "0.log"), Options{Tail: -1})
	if err != nil || out.String() != "one\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestAFollowedLogThatIsReplacedByAPipe(t *testing.T) {
	path := podLog(t)
	writeLog(t, path, line("one"))
	f := follow(t, t.Context(), path, Options{Tail: -1})
	f.want("one\n")
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(f.out)
	if err := <-f.end; err == nil || !strings.Contains(err.Error(), "not a regular file") || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestTheEndOfAHugeLogCostsLittle(t *testing.T) {
	path := podLog(t)
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)); err != nil {
		t.Fatal(err)
	}
	read := map[string]func(){
		"LastLines": func() {
			if got := LastLines(path, 80, 2048); len(got) != 2048 {
				t.Errorf("got %d bytes", len(got))
			}
		},
		"tail": func() {
			if err := newReader(t).Copy(t.Context(), io.Discard, path, Options{Tail: 3}); err != nil {
				t.Error(err)
			}
		},
		"limitBytes": func() {
			if err := newReader(t).Copy(t.Context(), io.Discard, path, Options{Tail: -1, LimitBytes: 1000}); err != nil {
				t.Error(err)
			}
		},
	}
	for name, f := range read {
		if used := allocated(f); used > 8<<20 {
			t.Errorf("%s took %d bytes of memory", name, used)
		}
	}
}

func TestLastLinesOfAnEndlessLine(t *testing.T) {
	// given a container that never ends its line, which the runtime writes in parts
	path := podLog(t)
	writeLog(t, path, strings.Repeat(stamp+" stdout P "+strings.Repeat("x", 1000)+"\n", 5000)+stamp+" stdout P end\n")
	if got := LastLines(path, 80, 10); got != "xxxxxxxend" {
		t.Errorf("got %q", got)
	}
}
