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
	mirror = "127.0.0.1:5000" // as in machine.sh
	// imagesMark is the file of the results that says that the machine has its images, as in machine.sh.
	imagesMark = "images"
	// bootTimeout is how long the container runtime may take to answer.
	bootTimeout = time.Minute
)

// job is what a machine does once it has its images, as in machine.sh.
type job string

const (
	nodeSuite    job = "node-suite"
	clusterNode  job = "cluster-node"
	clusterSuite job = "cluster-suite"
)

// machineConfig is what a machine is made of.
type machineConfig struct {
	name     string // of its network namespace and of its cgroups
	network  *netns.Namespace
	address  string
	pods     string // the addresses of its pods
	results  string // the folder of its logs, and of reports if a suite runs on it
	job      job
	options  []string // of ginkgo, if a suite runs on it
	programs programs
}

// programs are what machines run, and where it is.
type programs struct {
	script  string // machine.sh
	bin     string // the folder of what make builds
	kubelet string // below bin
	images  images
}

// machine is a computer made of namespaces, with a container runtime: see machine.sh.
type machine struct {
	results string // the folder of its logs
	command *exec.Cmd
	ended   chan struct{} // closed once all of its processes are gone or about to be
	err     error         // how its first process ended
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

// startMachine starts a machine, whose container runtime has all images when it returns. The machine ends with this process,
// however that ends, and pulls work until ctx ends. Keys pressed on our terminal do not reach it.
func startMachine(ctx context.Context, c machineConfig, out io.Writer) (*machine, error) {
	if err := errors.Join(os.MkdirAll(c.results, 0o755), makeCgroups(c.name), serve(ctx, c.network, c.programs.images.store)); err != nil {
		return nil, err
	}
	m, err := launch(c, out)
	if err != nil {
		return nil, err
	}
	if err := m.pull(ctx, c.programs.images.names); err != nil {
		m.kill()
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.results, imagesMark), nil, 0o644); err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// launch starts the first process of a machine.
func launch(c machineConfig, out io.Writer) (*machine, error) {
	args := []string{"enter", c.name, c.programs.bin, c.results, c.address, c.pods, c.programs.images.sandbox, c.programs.kubelet, string(c.job)}
	return launchCommand(c.network, c.results, out, exec.Command(c.programs.script, append(args, c.options...)...))
}

// launchCommand starts the command that is the first process of a machine.
func launchCommand(network *netns.Namespace, results string, out io.Writer, command *exec.Cmd) (*machine, error) {
	m := &machine{results: results, command: command, ended: make(chan struct{})}
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

// wait returns once the machine's job is done: whether specs failed is in the report.
func (m *machine) wait(ctx context.Context) error {
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return errors.New("interrupted")
	}
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

// makeCgroups makes the cgroups of a machine.
func makeCgroups(name string) error {
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
