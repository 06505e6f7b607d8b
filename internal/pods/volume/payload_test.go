package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/podfile"
)

func TestPathsThatAreRefused(t *testing.T) {
	for _, at := range []string{
		"", ".", "./", "..", "../a", "a/../b", "a/..", "/etc", "..data", "..a/b", "./..a", "a\x00b",
		strings.Repeat("a", 256), strings.Repeat("a/", 2100), strings.Repeat("a/", podfile.MaxDepth) + "a",
	} {
		if err := (payload{}).add(at, file{}); err == nil {
			t.Errorf("%q is taken", at)
		}
	}
	p := payload{}
	for _, at := range []string{"a", "./b", "c//d/", "e/..f", "...", "g/./h"} {
		if err := p.add(at, file{}); err != nil && at != "..." {
			t.Error(err)
		}
	}
	for _, at := range []string{"a", "b", "c/d", "e/..f", "g/h"} {
		if _, ok := p[at]; !ok {
			t.Errorf("%q is not there: %v", at, p)
		}
	}
}

func TestBadModes(t *testing.T) {
	for _, m := range []int32{-1, 0o1000, 0o4755} {
		if _, err := fileMode(nil, &m); err == nil {
			t.Errorf("%o is taken", m)
		}
	}
	if m, err := fileMode(nil, nil); m != 0o644 || err != nil {
		t.Error(m, err)
	}
}

// Whatever keys and paths an object and a pod bring, nothing is written outside of
// the volume, and what is taken can be read.
func FuzzKeys(f *testing.F) {
	for _, seed := range [][3]string{
		{"key", "a/b", "c"},
		{"..", "../x", "/etc/passwd"},
		{"..data", ".", ""},
		{"a", "a", "a/b"},
		{"..data_new", "x/../..", "x\x00y"},
		{".", "./", "//"},
		{"k", "....//..", "..2026"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, key, first, second string) {
		outside := t.TempDir()
		dir := filepath.Join(outside, "volume")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p := payload{}
		data := map[string][]byte{key: []byte("text")}
		for _, items := range [][]v1.KeyToPath{nil, {{Key: key, Path: first}}, {{Key: key, Path: second}}} {
			_ = p.keys("it", data, items, nil, nil)
		}
		c := atomicWriter{dir: dir, group: -1}
		if _, err := c.write(p); err == nil {
			for at := range p {
				if got, err := os.ReadFile(filepath.Join(dir, at)); string(got) != "text" || err != nil {
					t.Errorf("%q: %q, %v", at, got, err)
				}
			}
		}
		err := filepath.WalkDir(outside, func(at string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasPrefix(at, dir+"/") {
				t.Errorf("%q was written", at)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := c.write(payload{}); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 2 {
			t.Errorf("left: %v", left)
		}
	})
}
