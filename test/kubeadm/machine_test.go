//go:build real

package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/test/lab/process"
	"berth/test/leftovers"
	"berth/test/netns"
)

const (
	bin = "../../bin"
	// repository is where each machine finds the registry of the test.
	repository = "localhost:5000"
	uplink     = "eth0"
)

// machine is a machine for one node, made of namespaces: see machine.sh. It ends with the process of the test,
// however that ends, but for the name of its network and its cgroups, which the next one of its name removes.
type machine struct {
	t       *testing.T
	name    string
	address string
	podCIDR string
	network *netns.Namespace
	init    *process.Process // the parent of the machine's first process
	first   string           // the ID of its first process
	dir     string
}

// newMachines makes machines that are connected with each other, and with nothing else. They are to be booted. Images come
// from the registry.
func newMachines(t *testing.T, registry http.Handler) (one, two *machine) {
	t.Helper()
	one, two = newMachine(t, "one", 1), newMachine(t, "two", 2)
	must(t, run(one.network, "ip link add "+uplink+" type veth peer name "+uplink+" netns "+two.network.Name()))
	one.connect(two)
	two.connect(one)
	for _, m := range []*machine{one, two} {
		m.serve(registry)
	}
	return one, two
}

func newMachine(t *testing.T, name string, number int) *machine {
	t.Helper()
	m := &machine{
		t: t, name: name, address: fmt.Sprintf("10.99.1.%d", number), podCIDR: fmt.Sprintf("10.244.%d.0/24", number), dir: t.TempDir(),
	}
	must(t, leftovers.Remove(m.id()))
	var err error
	m.network, err = netns.New(m.id())
	must(t, err)
	t.Cleanup(m.remove)
	return m
}

// id is the name of the machine's network namespace, and of the cgroup of its pods.
func (m *machine) id() string { return "berth-kubeadm-" + m.name }

func (m *machine) connect(other *machine) {
	m.t.Helper()
	must(m.t, run(m.network,
		"ip address add "+m.address+"/24 dev "+uplink,
		"ip link set "+uplink+" up",
		"ip route add default via "+other.address, // servers look for a default route to find their address
		"ip route add "+other.podCIDR+" via "+other.address,
	))
}

func (m *machine) serve(registry http.Handler) {
	m.t.Helper()
	listener, err := m.network.Listen(m.t.Context(), "tcp", strings.Replace(repository, "localhost", "127.0.0.1", 1))
	must(m.t, err)
	server := &http.Server{Handler: registry, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	m.t.Cleanup(func() { _ = server.Close() })
}

// boot starts the machine, whose container runtime makes sandboxes of that image.
func (m *machine) boot(sandboxImage string) {
	m.t.Helper()
	programs, err := filepath.Abs(bin)
	must(m.t, err)
	m.init, err = process.Start(m.network, m.console(), "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
		"./machine.sh", m.name, m.address, m.podCIDR, programs, sandboxImage)
	must(m.t, err)
	children := fmt.Sprintf("/proc/%d/task/%[1]d/children", m.init.PID())
	m.within(time.Minute, func() error {
		text, err := os.ReadFile(children)
		if m.first = strings.TrimSpace(string(text)); err == nil && m.first == "" {
			err = errors.New("the machine has no process")
		}
		if err != nil {
			return err
		}
		_, err = m.try("test", "-S", "/run/containerd/containerd.sock")
		return err
	})
}

func (m *machine) console() string { return filepath.Join(m.dir, "console.log") }

// try runs a command on the machine, and returns what it printed.
func (m *machine) try(command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), 10*time.Minute)
	defer cancel()
	args := append([]string{
		"--target", m.first, "--mount", "--uts", "--pid", "--net", "env", "KUBECONFIG=/etc/kubernetes/admin.conf",
		"PATH=/opt/bin:/run/bin/libexec:/run/bin/cluster:" + os.Getenv("PATH"),
	}, command...)
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s on machine %s: %w: %s", strings.Join(command, " "), m.name, err, out)
	}
	return string(out), nil
}

// run is try for commands that have to succeed.
func (m *machine) run(command ...string) string {
	m.t.Helper()
	out, err := m.try(command...)
	must(m.t, err)
	return out
}

// write writes a file of the machine.
func (m *machine) write(path, text string) {
	m.t.Helper()
	must(m.t, os.WriteFile(filepath.Join("/proc", m.first, "root", path), []byte(text), 0o600))
}

// mustHave fails the test unless these files or folders are on the machine.
func (m *machine) mustHave(paths ...string) {
	m.t.Helper()
	for _, path := range paths {
		if !m.exists(path) {
			m.t.Errorf("machine %s has no %s", m.name, path)
		}
	}
}

// mustLack fails the test if one of these files or folders is on the machine.
func (m *machine) mustLack(paths ...string) {
	m.t.Helper()
	for _, path := range paths {
		if m.exists(path) {
			m.t.Errorf("machine %s has %s", m.name, path)
		}
	}
}

// exists reports whether a file or folder is on the machine.
func (m *machine) exists(path string) bool {
	_, err := os.Lstat(filepath.Join("/proc", m.first, "root", path))
	return err == nil
}

// processes returns the names of the programs that run on the machine.
func (m *machine) processes() []string {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join("/proc", m.first, "root/proc/[0-9]*/comm"))
	must(m.t, err)
	var programs []string
	for _, file := range files {
		if name, err := os.ReadFile(file); err == nil { // else it has ended
			programs = append(programs, strings.TrimSpace(string(name)))
		}
	}
	if len(programs) == 0 {
		m.t.Fatalf("machine %s has no process", m.name)
	}
	return programs
}

// within fails the test unless check succeeds in time.
func (m *machine) within(limit time.Duration, check func() error) {
	m.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		err := check()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline):
			m.t.Fatalf("not within %s: %v", limit, err)
		}
	}
}

// remove ends the machine, and fails the test if something of it stays.
func (m *machine) remove() {
	if m.init != nil {
		if m.t.Failed() {
			kubelet, _ := m.try("tail", "-n", "150", "/var/log/kubelet.log")
			containerd, _ := m.try("tail", "-n", "30", "/var/log/containerd.log")
			m.t.Logf("machine %s printed:\n%s\nits kubelet:\n%s\nits containerd:\n%s", m.name, process.Tail(m.console(), 8<<10), kubelet, containerd)
		}
		m.init.Kill()
	}
	m.network.Close()
	if err := leftovers.Remove(m.id()); err != nil {
		m.t.Error(err)
	}
}

// run runs commands in a network namespace. None of them has an argument with a space.
func run(ns *netns.Namespace, commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if _, err := ns.Run(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
