package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"berth/test/emulator"
	"berth/test/lab/process"
	"berth/test/leftovers"
)

const (
	// emulatedName is the name of the network namespace that the emulator is in.
	emulatedName = nodeName + "-emulated"
	// guestAddress and guestGateway are addresses of the network that the emulator makes up. Connections of the guest to
	// the gateway lead to the loopback interface of the emulator's network namespace.
	guestAddress = "10.0.2.15"
	guestGateway = "10.0.2.2"
	// apiServer is where the suite's API server listens.
	apiServer = "127.0.0.1:6443"
	// emulatedTimeout is how long an emulated machine may run.
	emulatedTimeout = time.Hour
)

// runEmulatedSuite runs the node suite on an emulated machine with systemd and cgroup v2, and fetches its reports and logs. The
// kubelet and the suite's processes are on the machine. The suite's etcd and API server are beside it, since it is slow. The emulator is
// in a network namespace: the connections of the machine begin there.
func runEmulatedSuite(ctx context.Context, r suiteRun, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, emulatedTimeout, errors.New("the machine was not off after "+emulatedTimeout.String()))
	defer cancel()
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	token := rand.Text()
	disk, err := newGuestDisk(ctx, dir, r, token)
	if err != nil {
		return err
	}
	m, services, err := startGuest(ctx, r, disk, token, out)
	if err != nil {
		return err
	}
	defer services.Kill()
	defer m.kill()
	select {
	case <-m.ended:
	case <-services.Ended():
		return errors.New("the suite's API server has ended: see services.log")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if m.err != nil {
		return fmt.Errorf("%s: %w", emulator.Program, m.err)
	}
	return errors.Join(
		runCommand(ctx, "debugfs", "-R", "rdump results "+dir, disk),
		runCommand(ctx, "cp", "-r", filepath.Join(dir, "results")+"/.", r.results))
}

// startGuest starts the suite's API server, and boots the machine.
func startGuest(ctx context.Context, r suiteRun, disk, token string, out io.Writer) (*machine, *process.Process, error) {
	network, err := newNetwork(emulatedName)
	if err != nil {
		return nil, nil, err
	}
	defer network.Close()
	// The emulator listens there for the API server, whose connections have to come from another address than the guest's own.
	if _, err := network.Run("ip", "route", "add", "local", guestAddress, "dev", "lo", "src", nodeAddress); err != nil {
		return nil, nil, err
	}
	if err := serve(ctx, network, r.programs.images.store); err != nil {
		return nil, nil, err
	}
	script, err := filepath.Abs(r.script("services.sh"))
	if err != nil {
		return nil, nil, err
	}
	services, err := process.Start(network, filepath.Join(r.results, "services.log"), "unshare", "--mount", script, r.program("conformance/e2e_node.test"), token)
	if err != nil {
		return nil, nil, err
	}
	args := append(emulator.Args(r.program("machine"), disk, "net.ifnames=0 security=apparmor"),
		"-nic", "user,model=virtio-net-pci,hostfwd=tcp:"+guestAddress+":10250-"+guestAddress+":10250",
		"-serial", "file:"+filepath.Join(r.results, "boot.log"), "-serial", "stdio")
	m, err := launchCommand(network, r.results, out, exec.Command(emulator.Program, args...))
	if err != nil {
		services.Kill()
		return nil, nil, err
	}
	return m, services, nil
}

// newGuestDisk makes the disk of which the emulated machine takes its programs and settings, and on which it leaves its results.
func newGuestDisk(ctx context.Context, dir string, r suiteRun, token string) (string, error) {
	tree, disk := filepath.Join(dir, "tree"), filepath.Join(dir, "disk")
	bin := filepath.Join(tree, "bin")
	kubelet := filepath.Join(bin, r.programs.kubelet)
	if err := errors.Join(os.MkdirAll(filepath.Join(bin, "conformance"), 0o755), os.MkdirAll(filepath.Dir(kubelet), 0o755)); err != nil {
		return "", err
	}
	settings := []string{
		"SANDBOX_IMAGE=" + r.programs.images.sandbox, "KUBELET=" + r.programs.kubelet, "MIRROR=http://" + seenByGuest(mirror),
		"SERVER=https://" + seenByGuest(apiServer), "TOKEN=" + token, "ADDRESS=" + guestAddress, "GATEWAY=" + guestGateway,
	}
	for file, lines := range map[string][]string{"guest.conf": settings, "options": r.options} {
		if err := os.WriteFile(filepath.Join(tree, file), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	for _, words := range [][]string{
		{"cp", r.program(r.programs.kubelet), kubelet},
		{"cp", "-r", r.program("libexec"), bin},
		{"cp", r.program("conformance/e2e_node.test"), r.program("conformance/ginkgo"), filepath.Join(bin, "conformance")},
		{"cp", r.script("../kubeadm/runtime.sh"), r.script("../emulator/node.sh"), r.script("settings.sh"), tree},
		{"cp", r.script("emulated.sh"), filepath.Join(tree, "run")},
		{"mkfs.ext4", "-q", "-d", tree, disk, "2G"},
	} {
		if err := runCommand(ctx, words[0], words[1:]...); err != nil {
			return "", err
		}
	}
	return disk, os.RemoveAll(tree)
}

// program returns the path of what make has built.
func (r suiteRun) program(name string) string { return filepath.Join(r.programs.bin, name) }

// script returns the path of a file beside the script of machines.
func (r suiteRun) script(name string) string {
	return filepath.Join(filepath.Dir(r.programs.script), name)
}

// seenByGuest returns the address by which the emulated machine reaches one of the loopback interface.
func seenByGuest(address string) string {
	return strings.Replace(address, "127.0.0.1", guestGateway, 1)
}

func runCommand(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

// describeGuest describes the emulated machine that has left results.
func describeGuest(results string) (string, error) {
	return describeKernel(filepath.Join(results, "osrelease"), "cgroup v2 with systemd")
}

func clearEmulatedSuite() error { return leftovers.Remove(emulatedName) }
