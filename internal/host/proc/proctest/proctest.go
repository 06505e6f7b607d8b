// Package proctest makes folders that look like /proc.
package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/internal/host/proc"
)

// Folder looks like the /proc of a machine on which the caller runs.
type Folder struct {
	t   *testing.T
	dir string
}

// Process is one process of a folder; the zero value of a field is what most processes have.
type Process struct {
	PID, Parent    int
	Start          uint64
	State          string // S
	Exe            string
	Args           []string
	User           int    // the caller
	PIDNamespace   string // default: the namespace of the caller
	MountNamespace string // default: the namespace of the caller
}

// namespaces of the caller.
const pidNamespace, mountNamespace = "pid:[1]", "mnt:[2]"

// New makes a folder that goes with the test.
func New(t *testing.T) Folder {
	t.Helper()
	f := Folder{t: t, dir: t.TempDir()}
	f.links("self", pidNamespace, mountNamespace)
	return f
}

// Table reads the folder.
func (f Folder) Table() proc.Table { return proc.Table{Dir: f.dir} }

// Add adds a process.
func (f Folder) Add(p Process) {
	f.t.Helper()
	defaults(&p)
	name := strconv.Itoa(p.PID)
	f.links(name, p.PIDNamespace, p.MountNamespace)
	for file, content := range map[string]string{
		"stat":    fmt.Sprintf("%d (odd) name) %s %d 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 8 0 %d 0 0\n", p.PID, p.State, p.Parent, p.Start),
		"status":  fmt.Sprintf("Name:\todd) name\nUid:\t%d\t0\t0\t0\n", p.User),
		"cmdline": strings.Join(p.Args, "\x00") + "\x00",
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name, file), []byte(content), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	if p.Exe == "" {
		return
	}
	if err := os.Symlink(p.Exe, filepath.Join(f.dir, name, "exe")); err != nil {
		f.t.Fatal(err)
	}
}

func defaults(p *Process) {
	if p.State == "" {
		p.State = "S"
	}
	if p.User == 0 {
		p.User = os.Getuid()
	}
	if p.PIDNamespace == "" {
		p.PIDNamespace = pidNamespace
	}
	if p.MountNamespace == "" {
		p.MountNamespace = mountNamespace
	}
}

func (f Folder) links(of, pid, mount string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, of, "ns")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	for name, to := range map[string]string{"pid": pid, "mnt": mount} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			f.t.Fatal(err)
		}
	}
}
