//go:build real

package pods

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/fixture"
	"berth/test/real/kit"
)

func groupOf(info fs.FileInfo) int {
	if info == nil {
		return -1
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Gid)
}

// mustBeShared makes a directory a mount with shared propagation.
func mustBeShared(n *kit.Node, dir string) {
	n.T.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		n.T.Fatal(err)
	}
}

func mountTmpfs(n *kit.Node, dir string) {
	n.T.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// csiDriver is a driver that runs on the machine.
type csiDriver struct {
	n         *kit.Node
	name, dir string
	flags     []string // of its program, beside those that each driver has
	cmd       *exec.Cmd
}

func newDriver(n *kit.Node, name string, flags ...string) *csiDriver {
	n.T.Helper()
	d := placeDriver(n, name)
	d.flags = flags
	d.start()
	n.T.Cleanup(func() { // it is needed until its volumes are gone
		if n.Agent != nil {
			n.Agent.Kill()
			n.Berth("down")
		}
		d.stop()
	})
	return d
}

// placeDriver puts the program of a driver where it is to run.
func placeDriver(n *kit.Node, name string) *csiDriver {
	n.T.Helper()
	program, err := fixture.Build("csidriver")
	if err != nil {
		n.T.Fatal(err)
	}
	d := &csiDriver{n: n, name: name, dir: filepath.Join(n.Dir, "csi")}
	mustMake(n, d.dir)
	if err := fixture.WriteProgram(filepath.Join(d.dir, "program"), program); err != nil {
		n.T.Fatal(err)
	}
	return d
}

// command is how the driver is called.
func (d *csiDriver) command() []string {
	return append([]string{filepath.Join(d.dir, "program"), "-name", d.name, "-dir", d.dir, "-registry", filepath.Join(d.n.Root, "plugins_registry")}, d.flags...)
}

func (d *csiDriver) start() {
	d.n.T.Helper()
	command := d.command()
	d.cmd = exec.Command(command[0], command[1:]...)
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		d.n.T.Fatal(err)
	}
}

func (d *csiDriver) stop() {
	if d.cmd != nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		_ = d.cmd.Wait()
		d.cmd = nil
	}
}

// calls returns the CSI calls that the driver got, without those of its registration.
func (d *csiDriver) calls() []string {
	text, err := os.ReadFile(filepath.Join(d.dir, "calls.log"))
	if err != nil {
		d.n.T.Fatal(err)
	}
	return kit.Filter(kit.Lines(string(bytes.TrimSpace(text))), func(line string) bool { return line != "" && !strings.HasPrefix(line, "registered") })
}

func (d *csiDriver) waitCall(begins string) {
	d.n.T.Helper()
	d.n.Wait("the driver to be asked: "+begins, 30*time.Second, func() string {
		for _, c := range d.calls() {
			if strings.HasPrefix(c, begins) {
				return ""
			}
		}
		return fmt.Sprint(d.calls())
	})
}

// hang lets the driver not answer for a volume, until the function it returns is called.
func (d *csiDriver) hang(volume string) (wake func()) {
	d.n.T.Helper()
	file := filepath.Join(d.dir, "hang-"+volume)
	d.n.ReplaceFile(file, nil)
	return func() { _ = os.Remove(file) }
}
