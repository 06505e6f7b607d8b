package volume

import (
	"path/filepath"
	"testing"
)

func TestStatDirFindsTheDirectoryOfAVolume(t *testing.T) {
	dir := t.TempDir()
	if got := StatDir(dir); !got.There || got.Capacity != nil || got.Used != nil {
		t.Errorf("a directory: %+v", got)
	}
	if got := StatDir("/proc"); !got.There {
		t.Errorf("a mount: %+v", got)
	}
	if got := StatDir(filepath.Join(dir, "none")); got != (DirInfo{}) {
		t.Errorf("a directory that is not there: %+v", got)
	}
}
