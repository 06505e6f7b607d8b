package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/test/netns"
	"berth/test/registry"
)

const (
	// name is that of the node, of its network namespace and of its cgroups: there is one at a time.
	name    = "berth-conformance"
	address = "10.99.3.1"
	mirror  = "127.0.0.1:5000" // as in machine.sh
	// imagesMark is the file of the results that says that the machine has its images, as in machine.sh.
	imagesMark = "images"
	// bootTimeout is how long the container runtime may take to answer.
	bootTimeout = time.Minute
)

// machine is what a suite runs on: see machine.sh.
type machine struct {
	network *netns.Namespace
	command *exec.Cmd
	ended   chan struct{} // closed once all of its processes are gone or about to be
	err     error         // how its first process ended
}

// newNetwork makes the network of the machine: a node address and a default route, which servers look for to
// find their address, and no way out.
func newNetwork() (*netns.Namespace, error) {
	network, err := netns.New(name)
	if err != nil {
		return nil, err
	}
	for _, command := range []string{
		"ip link add eth0 type veth peer name nowhere",
		"ip link set nowhere up",
		"ip link set eth0 up",
		"ip address add " + address + "/24 dev eth0",
		"ip route add default via 10.99.3.254",
	} {
		words := strings.Fields(command)
		if _, err := network.Run(words[0], words[1:]...); err != nil {
			return nil, errors.Join(err, network.Remove())
		}
	}
	return network, nil
}

// serve answers pulls on the machine until ctx ends.
func serve(ctx context.Context, network *netns.Namespace, store *registry.Registry) error {
	listener, err := network.Listen(ctx, "tcp", mirror)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: store, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// start starts the machine. It ends with this process, however that ends. Keys pressed on our terminal do not reach it.
func start(network *netns.Namespace, out io.Writer, script string, args ...string) (*machine, error) {
	if err := makeCgroups(); err != nil {
		return nil, err
	}
	m := &machine{network: network, command: exec.Command(script, append([]string{"enter"}, args...)...), ended: make(chan struct{})}
	m.command.Stdout, m.command.Stderr = out, out
	m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	m.command.WaitDelay = time.Second
	started := make(chan error, 1)
	go func() {
		defer close(m.ended)
		// The kernel ties the process to the thread that started it, so that thread waits for it.
		m.err = network.Inside(func() error {
			if err := m.command.Start(); err != nil {
				started <- err
				return err
			}
			started <- nil
			return m.command.Wait()
		})
	}()
	return m, <-started
}

// kill ends all processes of the machine.
func (m *machine) kill() {
	_ = m.command.Process.Kill() // it may be gone already
	<-m.ended
}

// pull makes the machine's container runtime pull images.
func (m *machine) pull(ctx context.Context, images []string) error {
	socket, err := m.socket(ctx)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	client := cri.NewImageServiceClient(connection)
	for _, image := range images {
		if _, err := client.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image}}, grpc.WaitForReady(true)); err != nil {
			return fmt.Errorf("pull %s: %w", image, err)
		}
	}
	return nil
}

// socket waits for the socket of the container runtime, and returns its path.
func (m *machine) socket(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, errors.New("no container runtime after "+bootTimeout.String()))
	defer cancel()
	children := fmt.Sprintf("/proc/%d/task/%[1]d/children", m.command.Process.Pid)
	for {
		if first, err := os.ReadFile(children); err == nil && len(first) > 0 {
			socket := filepath.Join("/proc", strings.TrimSpace(string(first)), "root/run/containerd/containerd.sock")
			if _, err := os.Stat(socket); err == nil {
				return socket, nil
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-m.ended:
			return "", fmt.Errorf("the machine has ended: %w", m.err)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// makeCgroups makes the cgroups of the machine.
func makeCgroups() error {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	if len(hierarchies) == 0 {
		return errors.New("the suite needs cgroup v1, with each controller mounted below /sys/fs/cgroup")
	}
	for _, file := range hierarchies {
		hierarchy := filepath.Dir(file)
		cgroup := filepath.Join(hierarchy, name)
		if err := os.Mkdir(cgroup, 0o755); err != nil {
			return err
		}
		if path.Base(hierarchy) != "cpuset" {
			continue
		}
		for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(hierarchy, setting))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(cgroup, setting), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
