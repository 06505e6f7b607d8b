package stats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/lib/podfile"
)

func TestCountOfAWideFolderHoldsABatch(t *testing.T) {
	// given a volume in which a container has made many files of long names
	dir := t.TempDir()
	const files = 10_000
	name := strings.Repeat("n", 240)
	for i := range files {
		f, err := syscall.Open(filepath.Join(dir, fmt.Sprint(name, i)), syscall.O_CREAT|syscall.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Close(f)
	}
	sampled := &sampler{Context: t.Context(), every: files / 10}
	// when they are counted, then no more than a batch of names is held at any time
	if _, counted, err := count(sampled, dir); err != nil || counted != files+1 {
		t.Errorf("counted %d, %v", counted, err)
	}
	if sampled.most > 1<<20 || sampled.calls < files {
		t.Errorf("%d bytes were held, in %d calls", sampled.most, sampled.calls)
	}
}

// sampler is a context that looks at the memory in use while a walk asks whether to go on.
type sampler struct {
	context.Context
	every, calls int
	first, most  uint64
}

func (s *sampler) Err() error {
	if s.calls++; s.calls == 1 || s.calls%s.every == 0 {
		var now runtime.MemStats
		runtime.GC() // what is left after it is held
		runtime.ReadMemStats(&now)
		if s.calls == 1 {
			s.first = now.HeapAlloc
		}
		s.most = max(s.most, now.HeapAlloc-min(now.HeapAlloc, s.first))
	}
	return nil
}

func TestCountOfADeepTree(t *testing.T) {
	dir := t.TempDir()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range podfile.MaxDepth + 10 {
		if err := at.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		_ = at.Close()
		at = next
	}
	_ = at.Close()
	if _, _, err := count(t.Context(), dir); !errors.Is(err, podfile.ErrTooDeep) {
		t.Errorf("got %v", err)
	}
	if measurePlace(t.Context(), place{dir, true}) != nil {
		t.Error("what was not counted is reported")
	}
}

func TestCountFollowsNoLink(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(outside, "file"), nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if _, files, err := count(t.Context(), dir); err != nil || files != 2 {
		t.Errorf("counted %d, %v", files, err)
	}
	if _, _, err := count(t.Context(), filepath.Join(dir, "link")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v", err)
	}
}

func TestFilesOfManyNamesTakeABoundedAmountOfMemory(t *testing.T) {
	sum := tally{linked: map[uint64]bool{}}
	const inodes = 3 * maxLinked
	for range 4 { // names of each
		for ino := range uint64(inodes) {
			sum.add(&unix.Stat_t{Ino: ino, Nlink: 4, Blocks: 8}, false)
		}
	}
	if len(sum.linked) != maxLinked {
		t.Errorf("%d are remembered", len(sum.linked))
	}
	if files := sum.files + uint64(sum.shares); files != inodes || sum.blocks != inodes*8 {
		t.Errorf("counted %d files and %d blocks, want %d and %d", files, sum.blocks, inodes, inodes*8)
	}
}
