// Package bundle is the container runtime that berth brings along: a containerd
// of its own with a bridge network, for machines that have no runtime yet.
//
// Everything lives below berth's root directory:
//
//	containerd/         images, snapshots, metadata: survives Teardown
//	containerd.toml     the configuration, written anew at each start
//	images/             image archives that users drop in
//	certs.d/            HOST/hosts.toml: mirrors and certificates of registries
//	imported.json       which of them are in the runtime already
//	cni/conf, cni/ipam  the network and the addresses that it gave out
//	log/containerd.log  the output of containerd
//	run/                sockets, mounts, pid file, a reserve of disk: gone after Teardown
//
// Run keeps one containerd alive: it adopts the containerd that an earlier agent left
// behind, or starts one. It starts another when containerd ends, or when it does not
// answer for minutes: then it is killed first. When Run ends, containerd and the
// containers go on. Teardown ends them.
//
// Run is the only writer of the files above, and only Teardown removes them; the caller
// makes sure that one agent at a time owns a root.
package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"berth/internal/host/roots"
	"berth/internal/host/selinux"
	"berth/internal/lib/atomicfile"
	"berth/internal/lib/backoff"
	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
)

// SandboxImage is the image of the sandbox container, whose process holds the namespaces of a pod
// open.
const SandboxImage = "localhost/berth-pause:1"

const (
	defaultPullTimeout = time.Minute
	defaultSilence     = 3 * time.Minute
)

// Config configures a Runtime.
type Config struct {
	// Owner is the claim on the root directory, the bridge and the pod CIDR of the runtime, and
	// proves what Teardown may remove.
	Owner   roots.Owner
	Libexec string // holds containerd, containerd-shim-runc-v2, runc, pause and cni/
	// PullTimeout is how long a pull may go on without data from the registry before it is
	// given up; 0 for a minute.
	PullTimeout time.Duration

	// Silence is how long containerd may answer no call before it is killed and started
	// again; 0 for three minutes. Containers outlive it.
	Silence time.Duration

	// State writes the files that the runtime can do without.
	State *statefile.Keeper

	// HasImage asks the endpoint over CRI whether it has an image.
	HasImage func(ctx context.Context, endpoint, image string) (bool, error)

	// Ready asks the endpoint over CRI whether runtime and network are ready.
	Ready func(ctx context.Context, endpoint string) error
	// Answers makes a CRI call that containerd answers in any state. It fails only if there is
	// no answer.
	Answers func(ctx context.Context, endpoint string) error

	// Up and Down are called when containerd is ready and when it has ended, in order, from
	// one goroutine. They must not block. Up is called after the images of the folder were
	// imported, or took too long.
	Up   func()
	Down func(cause error)

	// Imported is called with the names of the images of each archive that was imported.
	Imported func(names []string)
	// NetworkChanged is called when the configuration of the network may have changed.
	NetworkChanged func()

	Log *slog.Logger
}

// Runtime is the managed containerd of one root directory.
type Runtime struct {
	cfg          Config
	paths        paths
	launcher     *launcher
	imported     *statefile.File // which archives were imported
	reserve      *statefile.Entry
	log          *slog.Logger
	contentCache contentCache
}

// New checks the configuration. It touches nothing.
func New(cfg Config) (*Runtime, error) {
	if !filepath.IsAbs(cfg.Owner.Root()) {
		return nil, fmt.Errorf("root directory %q must be an absolute path", cfg.Owner.Root())
	}
	if !filepath.IsAbs(cfg.Libexec) {
		return nil, fmt.Errorf("directory of the bundled programs %q must be an absolute path", cfg.Libexec)
	}
	if cfg.Ready == nil || cfg.Answers == nil || cfg.HasImage == nil || cfg.Log == nil || cfg.State == nil {
		return nil, errors.New("bundle needs a readiness check, a question that is always answered, one for images, a keeper of its state and a logger")
	}
	if err := checkPodCIDR(cfg.Owner.PodCIDR()); err != nil {
		return nil, err
	}
	bridge, _ := cfg.Owner.Bridge()
	if err := checkLinkName(bridge); err != nil {
		return nil, err
	}
	if cfg.PullTimeout == 0 {
		cfg.PullTimeout = defaultPullTimeout
	}
	if cfg.PullTimeout < 0 {
		return nil, fmt.Errorf("a pull timeout of %s makes no sense", cfg.PullTimeout)
	}
	if cfg.Silence == 0 {
		cfg.Silence = defaultSilence
	}
	if cfg.Silence < time.Second {
		return nil, fmt.Errorf("a containerd that is busy is silent for longer than %s", cfg.Silence)
	}
	p, err := newPaths(cfg.Owner.Root(), cfg.Libexec)
	if err != nil {
		return nil, err
	}
	if cfg.Up == nil {
		cfg.Up = func() {}
	}
	if cfg.Down == nil {
		cfg.Down = func(error) {}
	}
	if cfg.Imported == nil {
		cfg.Imported = func([]string) {}
	}
	if cfg.NetworkChanged == nil {
		cfg.NetworkChanged = func() {}
	}
	r := &Runtime{cfg: cfg, paths: p, log: cfg.Log.With("component", "runtime")}
	r.launcher = newLauncher(p, r.log)
	r.launcher.pids = cfg.State.File(p.pidFile, "which process is containerd")
	r.imported = cfg.State.File(p.imported, "which image archives were imported")
	r.reserve = cfg.State.Entry("the reserve for the next start of containerd", func() error { return keepReserve(p) })
	return r, nil
}

// EndpointOf returns the CRI endpoint of the runtime of a root directory.
func EndpointOf(root string) string { return "unix://" + filepath.Join(root, "run", "containerd.sock") }

// Endpoint returns the CRI endpoint of the runtime.
func (r *Runtime) Endpoint() string { return EndpointOf(r.paths.root) }

// PullTimeout returns how long a pull may go on without data before it is given up.
func (r *Runtime) PullTimeout() time.Duration { return r.cfg.PullTimeout }

// Run keeps containerd alive until ctx ends, and then leaves it running. It fails only if a retry
// would not help: programs or rights are missing.
func (r *Runtime) Run(ctx context.Context) error {
	defer r.contentCache.close()
	if err := r.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	s := supervisor{
		launcher:      r.launcher,
		ready:         func(ctx context.Context) error { return r.cfg.Ready(ctx, r.Endpoint()) },
		answers:       func(ctx context.Context) error { return r.cfg.Answers(ctx, r.Endpoint()) },
		silence:       r.cfg.Silence,
		startServices: r.startServices,
		up:            r.cfg.Up,
		down:          r.cfg.Down,
		log:           r.log,
	}
	s.run(ctx)
	return nil
}

// prepare makes the directories and writes both configurations. On a disk that can't be written it
// retries, unless a containerd runs already, which needs neither.
func (r *Runtime) prepare(ctx context.Context) error {
	if err := r.paths.checkPrograms(); err != nil {
		return err
	}
	network, config, err := r.render()
	if err != nil {
		return err
	}
	for failures := 1; ; failures++ {
		err := r.writeFiles(network, config)
		if err == nil || !statefile.CantWrite(err) {
			return err
		}
		if running, findErr := r.launcher.running(); findErr == nil && running != nil {
			running.close()
			r.log.Warn("the files of the runtime can't be written: the running containerd goes on with those that it has", "err", err)
			return nil
		}
		if failures == 1 {
			r.log.Error("the files of the runtime can't be written, and no containerd runs: trying again, at longer and longer intervals", "err", err)
			r.freeSpace()
		}
		if run.Sleep(ctx, restartPause.After(failures)) != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// freeSpace removes files that the runtime itself can spare: its reserve, an old log, and
// archives that were being received when the last agent ended.
func (r *Runtime) freeSpace() {
	_ = os.Remove(r.paths.reserve)
	_ = os.Remove(oldLog(r.paths.log))
	parts, _ := filepath.Glob(filepath.Join(r.paths.tmp, loadPattern))
	for _, part := range parts {
		_ = os.Remove(part)
	}
}

// render returns the configurations of the network and of containerd.
func (r *Runtime) render() (network, config []byte, err error) {
	if network, err = renderNetwork(r.paths, r.cfg.Owner); err != nil {
		return nil, nil, err
	}
	var can capabilities
	if can.lowerOOM, err = mayLowerOOMScore(); err != nil {
		return nil, nil, err
	}
	err = selinux.CanLabel()
	if can.label = err == nil; !can.label && !errors.Is(err, selinux.ErrDisabled) {
		r.log.Warn("containers have no SELinux labels", "err", err)
	}
	config, err = renderConfig(r.paths, can, r.cfg.PullTimeout)
	return network, config, err
}

// writeFiles makes the directories and writes both configurations. A file that has the content
// already is not written, because containerd watches the network's, and a disk may be read-only.
func (r *Runtime) writeFiles(network, config []byte) error {
	for _, dir := range r.paths.dirs() {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory of the runtime: %w", err)
		}
	}
	// A pod with a user namespace has no root of the machine in it, and has to find its file system
	// below this directory.
	const open = 0o711
	for _, dir := range []string{filepath.Dir(r.paths.state), r.paths.state} {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm() == open {
			continue
		}
		if err := os.Chmod(dir, open); err != nil {
			return fmt.Errorf("open directory of the runtime: %w", err)
		}
	}
	if err := writeIfChanged(r.paths.network, network); err != nil {
		return err
	}
	return writeIfChanged(r.paths.config, config)
}

// writeIfChanged replaces the file atomically, unless it has this content already.
func writeIfChanged(path string, content []byte) error {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := atomicfile.Replace(path, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// restartPause is the pause between two attempts to start containerd.
var restartPause = backoff.Exponential{First: time.Second, Max: 30 * time.Second}

// Intervals and timeouts of the supervision.
const (
	healthyAfter       = time.Minute // of a run: after it, the next end counts as the first again
	readyPollInterval  = 50 * time.Millisecond
	readyTimeout       = 5 * time.Second  // of one readiness check
	readyWarnAfter     = 30 * time.Second // then the log says that it takes long
	firstImportTimeout = 30 * time.Second // for the images of the folder, before Up
	healthPollInterval = 10 * time.Second // between two calls of answers
	minFailures        = 3                // calls without an answer, before containerd is killed
	maxSilences        = 8                // limit of the silence of a containerd that never answered, as a multiple
)
