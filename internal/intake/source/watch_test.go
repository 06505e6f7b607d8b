package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// These are on the real watches of the kernel, and in real time.

func TestRealEdits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := NewFile(FileConfig{Path: dir, Node: "n", Interval: time.Hour, Log: quietLog()})
	must(t, err)
	out, stop := start(f.Run)
	defer stop()
	wantNext(t, out, "SET ")

	path := filepath.Join(dir, "a.yaml")
	write(t, path, web("a", "1"))
	wantNext(t, out, "SET a-n=1")

	// As editors do: another file, renamed over the old one.
	write(t, filepath.Join(dir, ".a.yaml.new"), web("a", "2"))
	must(t, os.Rename(filepath.Join(dir, ".a.yaml.new"), path))
	wantNext(t, out, "SET a-n=2")

	// As other editors do: the old one is moved away first.
	must(t, os.Rename(path, path+"~"))
	write(t, path, web("a", "3"))
	wantNext(t, out, "SET a-n=3")

	must(t, os.Remove(path))
	wantNext(t, out, "SET ")
}

func TestARealCopyIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := NewFile(FileConfig{Path: dir, Node: "n", Interval: time.Hour, Log: quietLog()})
	must(t, err)
	out, stop := start(f.Run)
	defer stop()
	wantNext(t, out, "SET ")
	began := time.Now()
	must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(web("a", "1")), 0o600))
	wantNext(t, out, "SET a-n=1")
	if took := time.Since(began); took > settleTime {
		t.Errorf("it took %s", took)
	}
}

func TestARealFolderThatIsReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "m")
	must(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "a.yaml"), web("a", "1"))
	f, err := NewFile(FileConfig{Path: dir, Node: "n", Interval: time.Hour, Log: quietLog()})
	must(t, err)
	out, stop := start(f.Run)
	defer stop()
	wantNext(t, out, "SET a-n=1")

	must(t, os.Mkdir(dir+".new", 0o700))
	write(t, filepath.Join(dir+".new", "b.yaml"), web("b", "1"))
	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Rename(dir+".new", dir))
	for have := ""; have != "SET b-n=1"; {
		have = formatSnapshot(next(t, out)) // first with the old pod, until its file is believed to be gone
		if have != "SET b-n=1" && have != "SET a-n=1 b-n=1" {
			t.Fatalf("unexpected %q", have)
		}
	}
	// The new folder is watched.
	write(t, filepath.Join(dir, "c.yaml"), web("c", "1"))
	wantNext(t, out, "SET b-n=1 c-n=1")
}
