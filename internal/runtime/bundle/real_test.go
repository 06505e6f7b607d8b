//go:build real

package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/ociarchive"
)

// The tests run in a network namespace of their own, so that no link and no rule of
// theirs is seen by anybody else: the test program starts itself again in a new one.
const inNetns = "BERTH_TEST_NETNS"

func TestMain(m *testing.M) {
	if os.Getenv(inNetns) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNetns+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "tests in a network namespace (root is needed):", err)
		os.Exit(1)
	}
}

// machine is one root directory, and the state of the machine before the test.
type machine struct {
	t       *testing.T
	root    string
	libexec string
	silence time.Duration // of containerd, before it is killed; 0: the usual
	before  map[string][]string
	log     *logBuffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	libexec, err := filepath.Abs("../../../bin/libexec")
	if err != nil {
		t.Fatal(err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("", "brt") // short: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	owner := rootstest.Owner(t, roots.Claim{CgroupRoot: "/" + filepath.Base(root)})
	t.Cleanup(func() {
		_ = os.RemoveAll(root)
		if err := removeCgroups(owner); err != nil {
			t.Error(err)
		}
	})
	m := &machine{t: t, root: root, libexec: libexec, log: &logBuffer{}}
	m.before = m.look()
	return m
}

// removeCgroups removes the cgroups that the pods of an owner left, and the one above them.
func removeCgroups(owner roots.Owner) error {
	tree, err := cgroup.Open()
	if err != nil {
		return err
	}
	pods, err := cgroup.NewPods(cgroup.PodsConfig{
		Tree: tree, Owner: owner, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	names, err := tree.Children(owner.CgroupRoot())
	for _, name := range names {
		err = errors.Join(err, pods.Remove(context.Background(), filepath.Join(owner.CgroupRoot(), name)))
	}
	return errors.Join(err, pods.RemoveEmpty(context.Background()))
}

// look lists everything that a runtime could leave behind.
func (m *machine) look() map[string][]string {
	m.t.Helper()
	mounts, err := mountsBelow(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		m.t.Fatal(err)
	}
	seen := map[string][]string{"mounts": mounts}
	for _, l := range links {
		seen["links"] = append(seen["links"], l.Attrs().Name)
	}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.Command(save).Output()
		if err != nil {
			m.t.Fatal(save, err)
		}
		for line := range strings.Lines(string(out)) {
			// The built-in chains, without rules, are made by looking at them.
			if strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":CNI") {
				seen[save] = append(seen[save], line)
			}
		}
	}
	seen["processes"] = m.processes()
	results, err := filepath.Glob(cniResults + "/berth-*")
	if err != nil {
		m.t.Fatal(err)
	}
	seen["cached results"] = results
	return seen
}

// processes returns the processes of the root and of its containers, which are known by their
// cgroup: its parent bears the name of the root.
func (m *machine) processes() []string {
	m.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for _, dir := range dirs {
		if filepath.Base(dir) == strconv.Itoa(os.Getpid()) {
			continue
		}
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup")) // it may be gone
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(args) == 0 {
			continue // it has ended
		}
		if strings.Contains(string(args), m.root) || strings.Contains(string(groups), filepath.Base(m.root)) {
			out = append(out, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return out
}

func (m *machine) mustBeAsBefore() {
	m.t.Helper()
	after := m.look()
	for _, what := range []string{"mounts", "links", "iptables-save", "ip6tables-save", "processes", "cached results"} {
		if !slices.Equal(m.before[what], after[what]) {
			m.t.Errorf("%s before: %v\nafter: %v", what, m.before[what], after[what])
		}
	}
	for _, dir := range []string{"run", "cni"} {
		if _, err := os.Stat(filepath.Join(m.root, dir)); !os.IsNotExist(err) {
			m.t.Errorf("%s is still there (%v)", dir, err)
		}
	}
}

// mustShow checks that look finds the traces of a running pod.
func (m *machine) mustShow(kinds ...string) {
	m.t.Helper()
	now := m.look()
	for _, what := range kinds {
		if slices.Equal(m.before[what], now[what]) {
			m.t.Errorf("%s are not seen while a pod runs: %v", what, now[what])
		}
	}
	if !slices.ContainsFunc(now["links"], func(name string) bool { return strings.HasPrefix(name, limitPrefix) }) {
		m.t.Errorf("no link limits the traffic: %v", now["links"])
	}
}

// agent is one run of the supervision, as the agent would have it.
type agent struct {
	m        *machine
	rt       *Runtime
	up       chan time.Time
	down     chan time.Time
	imported chan []string
	stop     func()
}

func (m *machine) runtime(a *agent) *Runtime {
	m.t.Helper()
	log := slog.New(slog.NewTextHandler(io.MultiWriter(m.log, m.t.Output()), nil))
	netns, err := roots.CurrentNetNS()
	if err != nil {
		m.t.Fatal(err)
	}
	rt, err := New(Config{
		State: newState(m.t, log),
		Owner: rootstest.Owner(m.t, roots.Claim{
			Root: m.root, NetNS: netns, Network: &roots.Network{Bridge: "berth-test", PodCIDR: netip.MustParsePrefix("10.213.0.0/24")},
		}),
		Libexec: m.libexec,
		Silence: m.silence, Ready: criReady, Answers: criAnswers, HasImage: criHasImage,
		Up:       func() { a.up <- time.Now() },
		Down:     func(error) { a.down <- time.Now() },
		Imported: func(names []string) { a.imported <- names },
		Log:      log,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return rt
}

func (m *machine) startAgent() *agent {
	m.t.Helper()
	a := &agent{m: m, up: make(chan time.Time, 10), down: make(chan time.Time, 10), imported: make(chan []string, 10)}
	a.rt = m.runtime(a)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.rt.Run(ctx) }()
	a.stop = func() {
		m.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			m.t.Error("Run:", err)
		}
		ended <- nil
	}
	m.t.Cleanup(func() { // runs after the one below
		if err := a.rt.Teardown(context.Background()); err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(a.stop)
	return a
}

func (a *agent) pid() int {
	a.m.t.Helper()
	h, err := newLauncher(a.rt.paths, slog.New(slog.DiscardHandler)).running()
	if err != nil || h == nil {
		a.m.t.Fatal("containerd does not run", err)
	}
	h.close()
	return h.pid()
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(60 * time.Second):
		t.Fatal("waited too long for: ", what)
		panic("not reached")
	}
}

func dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func criReady(ctx context.Context, endpoint string) error {
	conn, err := dial(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	resp, err := cri.NewRuntimeServiceClient(conn).Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return err
	}
	for _, c := range resp.GetStatus().GetConditions() {
		if (c.Type == "RuntimeReady" || c.Type == "NetworkReady") && !c.Status {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	return nil
}

func criHasImage(ctx context.Context, endpoint, image string) (bool, error) {
	conn, err := dial(endpoint)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	status, err := cri.NewImageServiceClient(conn).ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
	return status.GetImage() != nil, err
}

func criAnswers(ctx context.Context, endpoint string) error {
	conn, err := dial(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{})
	return err
}

// archive makes an image whose program does nothing, for as long as it is let.
func (m *machine) archive(tag string, write func(io.Writer, ociarchive.Image) error) []byte {
	m.t.Helper()
	program, err := os.ReadFile(filepath.Join(m.libexec, "pause"))
	if err != nil {
		m.t.Fatal(err)
	}
	image := sandboxImage(program)
	image.Tag, image.User = tag, ""
	var out bytes.Buffer
	if err := write(&out, image); err != nil {
		m.t.Fatal(err)
	}
	return out.Bytes()
}

func (m *machine) drop(file string, content []byte) {
	m.t.Helper()
	dir := filepath.Join(m.root, "images")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
		m.t.Fatal(err)
	}
}
