package bundle

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxShimSocketDir is the longest directory that containerd takes for the sockets
// of its shims: a unix socket's path has 107 bytes, and the file name takes 65.
const maxShimSocketDir = 42

// paths are the files of one root directory.
type paths struct {
	root    string
	libexec string

	data       string // containerd: images, snapshots, metadata
	config     string
	images     string
	imported   string
	registries string // hosts.toml files of registries
	cni        string
	cniConf    string
	network    string // the conflist
	ipam       string
	logDir     string
	log        string

	run     string
	state   string
	socket  string
	pidFile string
	reserve string // room for a start on a full disk
	shims   string // sockets of the shims
	runc    string // state of runc
	tmp     string

	containerd, shim, runcProgram, pause, cniPrograms string
}

func newPaths(root, libexec string) (paths, error) {
	root, libexec = filepath.Clean(root), filepath.Clean(libexec)
	if root == "/" {
		return paths{}, fmt.Errorf("root directory must not be /")
	}
	p := paths{root: root, libexec: libexec}
	below := func(elem ...string) string { return filepath.Join(append([]string{root}, elem...)...) }
	p.data = below("containerd")
	p.config = below("containerd.toml")
	p.images = below("images")
	p.imported = below("imported.json")
	p.registries = below("certs.d")
	p.cni = below("cni")
	p.cniConf = below("cni", "conf")
	p.network = below("cni", "conf", "berth.conflist")
	p.ipam = below("cni", "ipam")
	p.logDir = below("log")
	p.log = below("log", "containerd.log")
	p.run = below("run")
	p.state = below("run", "containerd")
	p.socket = below("run", "containerd.sock")
	p.pidFile = below("run", "containerd.pid")
	p.reserve = below("run", "reserve")
	p.shims = below("run", "s")
	p.runc = below("run", "runc")
	p.tmp = below("run", "tmp")

	p.containerd = filepath.Join(libexec, "containerd")
	p.shim = filepath.Join(libexec, "containerd-shim-runc-v2")
	p.runcProgram = filepath.Join(libexec, "runc")
	p.pause = filepath.Join(libexec, "pause")
	p.cniPrograms = filepath.Join(libexec, "cni")

	// The sockets of the shims are the longest of all paths that have a limit.
	if over := len(p.shims) - maxShimSocketDir; over > 0 {
		return paths{}, fmt.Errorf("root directory %s is too long for unix sockets: it has %d bytes and may have %d; choose a shorter one",
			root, len(root), len(root)-over)
	}
	return p, nil
}

func (p paths) dirs() []string {
	return []string{p.data, p.images, p.cniConf, p.ipam, p.logDir, p.state, p.shims, p.runc, p.tmp}
}

// checkPrograms fails if a program of the bundle is missing.
func (p paths) checkPrograms() error {
	programs := []string{p.containerd, p.shim, p.runcProgram, p.pause}
	for _, name := range []string{"bridge", "host-local", "portmap", "bandwidth"} {
		programs = append(programs, filepath.Join(p.cniPrograms, name))
	}
	for _, program := range programs {
		info, err := os.Stat(program)
		if err != nil {
			return fmt.Errorf("bundled runtime is not complete (build it, or name another runtime endpoint): %w", err)
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return fmt.Errorf("bundled runtime is not complete: %s is not a program", program)
		}
	}
	return nil
}
