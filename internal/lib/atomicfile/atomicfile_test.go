package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(string, []byte, fs.FileMode) error{"for a while": Replace, "for good": ReplaceForGood} {
		t.Run(name, func(t *testing.T) {
			// given a file that others may read, one that was begun, and a reader
			path := filepath.Join(t.TempDir(), "file")
			for _, p := range []string{path, path + ".new"} {
				if err := os.WriteFile(p, []byte("old and long"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			reader, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()

			// when it is replaced
			if err := replace(path, []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}

			// then it is another file, the reader has the old one, and nothing is left over
			content, err := os.ReadFile(path)
			if err != nil || string(content) != "new" {
				t.Errorf("it holds %q: %v", content, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("its mode is %v: %v", info.Mode(), err)
			}
			before := make([]byte, 100)
			if n, err := reader.Read(before); err != nil || string(before[:n]) != "old and long" {
				t.Errorf("the reader has %q: %v", before[:n], err)
			}
			mustBeAlone(t, path)
		})
	}
}

func TestAFileThatCannotBeReplacedStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := Replace(path, []byte("new"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}

	mustBeAlone(t, path)
}

func mustBeAlone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("there are %v", entries)
	}
}
