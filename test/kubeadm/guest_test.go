//go:build real

package kubeadm

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/test/emulator"
	"berth/test/lab/process"
)

const (
	// guestName is the host name of the Debian that test/machine/image.sh makes.
	guestName = "machine"
	// guestAddress and guestGateway are addresses of the network that the emulator makes up. Connections of the guest
	// to the gateway lead to the loopback interface of the emulator's network namespace.
	guestAddress = "10.0.2.15"
	guestGateway = "10.0.2.2"
	// guestTimeout is how long one command may take on an emulated machine, its boot included.
	guestTimeout = 8 * time.Minute
)

// guest is an emulated machine with systemd and cgroup v2, for one node: see guest.sh. The emulator runs in a network
// namespace of the test, and makes the connections of the guest there: they can go nowhere else.
type guest struct {
	t     *testing.T
	dir   string
	line  net.Conn      // to the shell of the guest
	lines *bufio.Reader // what the shell prints
}

// newGuest boots a guest in the network of a machine that is not booted itself. The guest reaches what this machine would
// reach, and the plane reaches its kubelet.
func newGuest(t *testing.T, plane, host *machine, sandboxImage string) *guest {
	t.Helper()
	g := &guest{t: t, dir: t.TempDir()}
	must(t, run(host.network, "ip address add "+guestAddress+"/32 dev lo"))
	must(t, run(plane.network, "ip route add "+guestAddress+"/32 via "+host.address))
	shell := filepath.Join(g.dir, "shell")
	args := append(emulator.Args(filepath.Join(bin, "machine"), g.newDisk(sandboxImage), "net.ifnames=0"),
		"-nic", "user,model=virtio-net-pci,hostfwd=tcp:"+guestAddress+":10250-"+guestAddress+":10250",
		"-serial", "file:"+g.console(), "-chardev", "socket,id=shell,server=on,path="+shell, "-serial", "chardev:shell")
	emulated, err := process.Start(host.network, filepath.Join(g.dir, "emulator.log"), emulator.Program, args...)
	must(t, err)
	t.Cleanup(emulated.Kill)
	host.within(time.Minute, func() (err error) { // the emulator waits for this connection
		g.line, err = (&net.Dialer{}).DialContext(t.Context(), "unix", shell)
		return err
	})
	t.Cleanup(func() { _ = g.line.Close() })
	g.lines = bufio.NewReader(g.line)
	return g
}

// newDisk makes the disk of which the guest takes its programs and settings.
func (g *guest) newDisk(sandboxImage string) string {
	g.t.Helper()
	tree, disk := filepath.Join(g.dir, "tree"), filepath.Join(g.dir, "disk")
	must(g.t, os.MkdirAll(filepath.Join(tree, "bin"), 0o755))
	must(g.t, os.WriteFile(filepath.Join(tree, "settings"), []byte(strings.Join([]string{
		"SANDBOX_IMAGE=" + sandboxImage, "POD_RANGE=10.244.3.0/24", "REGISTRY=" + repository,
		"REGISTRY_URL=http://" + strings.Replace(repository, "localhost", guestGateway, 1),
		"ADDRESS=" + guestAddress, "GATEWAY=" + guestGateway,
	}, "\n")), 0o600))
	for _, command := range [][]string{
		{"cp", "-r", filepath.Join(bin, "berth"), filepath.Join(bin, "libexec"), filepath.Join(bin, "cluster/kubeadm"), filepath.Join(tree, "bin")},
		{"cp", "runtime.sh", "../emulator/node.sh", "../../packaging/kubelet.service", "../../packaging/10-kubeadm.conf", tree},
		{"cp", "guest.sh", filepath.Join(tree, "run")},
		{"mkfs.ext4", "-q", "-d", tree, disk, "1G"},
	} {
		if out, err := exec.CommandContext(g.t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			g.t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	must(g.t, os.RemoveAll(tree))
	return disk
}

func (g *guest) console() string { return filepath.Join(g.dir, "console.log") }

// awaitShell returns once the guest has booted and runs commands.
func (g *guest) awaitShell() {
	g.t.Helper()
	g.readUntil("ready")
}

// try runs a command for bash on the guest, and returns what it printed and whether it succeeded.
func (g *guest) try(command string) (printed string, ok bool) {
	g.t.Helper()
	if _, err := fmt.Fprintln(g.line, base64.StdEncoding.EncodeToString([]byte(command))); err != nil {
		g.t.Fatalf("%s: %v", command, err)
	}
	printed, status := g.readUntil("ended ")
	return strings.TrimSpace(printed), status == "0"
}

// readUntil returns what the guest prints before a line that begins with a word, and the rest of that line.
func (g *guest) readUntil(word string) (before, rest string) {
	g.t.Helper()
	must(g.t, g.line.SetReadDeadline(time.Now().Add(guestTimeout)))
	var text strings.Builder
	for {
		line, err := g.lines.ReadString('\n')
		if err != nil {
			g.t.Fatalf("the guest did not answer: %v\nit printed:\n%s%s\nits console:\n%s", err, &text, line, process.Tail(g.console(), 8<<10))
		}
		line = strings.TrimRight(line, "\r\n")
		if rest, found := strings.CutPrefix(line, word); found {
			return text.String(), rest
		}
		fmt.Fprintln(&text, line)
	}
}

// run is try for commands that have to succeed.
func (g *guest) run(command string) string {
	g.t.Helper()
	out, ok := g.try(command)
	if !ok {
		journal, _ := g.try("journalctl --no-pager -n 150 -u kubelet -u containerd")
		g.t.Fatalf("%s failed:\n%s\njournal:\n%s", command, out, journal)
	}
	return out
}

// step runs a command that a person would run, and logs what it prints.
func (g *guest) step(command string) {
	g.t.Helper()
	began := time.Now()
	out := g.run(command)
	g.t.Logf("guest: %s (%s)\n%s", command, time.Since(began).Round(time.Second), out)
}

// write writes a file of the guest.
func (g *guest) write(path, text string) {
	g.t.Helper()
	g.run("base64 -d >" + path + " <<<" + base64.StdEncoding.EncodeToString([]byte(text)))
}

// processes returns the IDs of the processes in a cgroup of the guest and below it.
func (g *guest) processes(cgroup string) []string {
	g.t.Helper()
	out, _ := g.try("find /sys/fs/cgroup" + cgroup + " -name cgroup.procs -exec cat {} +")
	return strings.Fields(out)
}
