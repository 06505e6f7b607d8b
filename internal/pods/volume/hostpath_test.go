package volume

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestHostPathTypes(t *testing.T) {
	dir, err := os.MkdirTemp("", "vol") // short: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "socket")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	none := filepath.Join(dir, "none")
	const device = "/dev/null"

	for _, c := range []struct {
		want v1.HostPathType
		good string
		bad  []string
		says string
	}{
		{v1.HostPathUnset, none, nil, ""},
		{v1.HostPathDirectory, dir, []string{file, socket, device, none}, "is not a directory"},
		{v1.HostPathDirectoryOrCreate, dir, []string{file, socket, device}, "is not a directory"},
		{v1.HostPathFile, file, []string{dir, socket, device, none}, "is not a file"},
		{v1.HostPathFileOrCreate, file, []string{dir, socket, device}, "is not a file"},
		{v1.HostPathSocket, socket, []string{dir, file, device, none}, "is not a socket"},
		{v1.HostPathCharDev, device, []string{dir, file, socket, none}, "is not a character device"},
		{v1.HostPathBlockDev, "", []string{dir, file, socket, device, none}, "is not a block device"},
		{"Floppy", "", []string{dir}, `type "Floppy" is not known`},
	} {
		if c.good != "" {
			if err := checkHostPath(c.good, c.want); err != nil {
				t.Errorf("%s %s: %v", c.want, c.good, err)
			}
		}
		for _, path := range c.bad {
			err := checkHostPath(path, c.want)
			if err == nil || !strings.Contains(err.Error(), c.says) || (c.want != "Floppy" && !strings.HasPrefix(err.Error(), "hostPath type check failed: "+path)) {
				t.Errorf("%s %s: %v", c.want, path, err)
			}
		}
	}
	if is := hostTypes[v1.HostPathBlockDev].is; !is(fs.ModeDevice) || is(fs.ModeDevice|fs.ModeCharDevice) {
		t.Error("block devices are taken for character devices")
	}
}

func TestHostPathsAreMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := checkHostPath(dir, v1.HostPathDirectoryOrCreate); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := checkHostPath(file, v1.HostPathFileOrCreate); err != nil {
		t.Fatal(err)
	}
	if d, f := mode(t, dir), mode(t, file); d != 0o755|os.ModeDir || f != 0o644 {
		t.Error(d, f)
	}
	if err := checkHostPath("/no/such/file", v1.HostPathFileOrCreate); err == nil {
		t.Error("a file was made, with all directories to it")
	}
}

func TestAHostPathIsCheckedOnce(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "dir")
	p := podWith(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir, Type: new(v1.HostPathDirectory)}})
	w.setupFails(p, `volume "vol": hostPath type check failed: `+dir+" is not a directory")

	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.setup(p)
	if w.dir(p) != dir {
		t.Error(w.dir(p))
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	w.setup(p)
}

func TestARelativeHostPathIsRefused(t *testing.T) {
	newWorld(t).setupFails(podWith(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "etc"}}), "not an absolute path")
}

func TestAPipeInThePlaceOfAHostFileIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeHostFile(path); err == nil { // to open it would wait for a reader
		t.Error("a pipe is taken for a file")
	}
}
