package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"berth/internal/host/proc"
	"berth/internal/host/roots"
)

const (
	containerdGrace = 10 * time.Second
	cniResults      = "/var/lib/cni/results" // fixed in the CNI library
)

// Teardown ends the runtime and removes its mounts, links, firewall rules and state; images
// stay. It is called after Run has ended, and after the pods were stopped over CRI. The
// containers of pods that were not stopped are killed. Each step is tried also if the step
// before failed, and Teardown can be repeated.
func (r *Runtime) Teardown(ctx context.Context) error {
	l := newLauncher(r.paths, r.log)
	owner := r.cfg.Owner
	var errs []error
	for _, step := range []func() error{
		func() error { return stopContainerd(ctx, l) },
		func() error { return removeContainers(ctx, r.paths) },
		func() error { return killShims(ctx, l) },
		// Links before mounts: the mounts keep the pods' ends of the links alive,
		// and only by them the devices of traffic limits are found.
		func() error { return r.removeNetwork(ctx) },
		func() error { return unmountAll(ctx, owner) },
		func() error { return removeCachedResults(owner) },
		func() error { return removeState(r.paths) },
	} {
		errs = append(errs, step())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take down the runtime: %w", err)
	}
	return nil
}

// removeNetwork removes links and firewall rules, unless they are in another network
// namespace: links of the same name in this one are not berth's.
func (r *Runtime) removeNetwork(ctx context.Context) error {
	here, err := roots.CurrentNetNS()
	if err != nil {
		return err
	}
	if here != r.cfg.Owner.NetNS() {
		r.log.Warn("the pods' links and firewall rules are in another network namespace, and stay there", "namespace", r.cfg.Owner.NetNS(), "here", here)
		return nil
	}
	return errors.Join(removeLinks(r.cfg.Owner), removeRules(ctx, r.cfg.Owner))
}

func stopContainerd(ctx context.Context, l *launcher) error {
	for {
		h, err := l.running()
		if err != nil || h == nil {
			return err
		}
		if err := h.stop(ctx, containerdGrace); err != nil {
			return fmt.Errorf("stop containerd: %w", err)
		}
		l.log.Info("stopped containerd", "pid", h.pid())
	}
}

// removeContainers makes runc kill the containers that are left, with their cgroups.
// Killing the shims alone would let the containers' processes go on.
func removeContainers(ctx context.Context, p paths) error {
	root := filepath.Join(p.runc, criNamespace)
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var errs []error
	for _, e := range entries {
		out, err := exec.CommandContext(ctx, p.runcProgram, "--root", root, "delete", "--force", e.Name()).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("remove container %s: %w: %s", e.Name(), err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

func killShims(ctx context.Context, l *launcher) error {
	shims, err := l.procs.Find(l.paths.isShim)
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range shims {
		h, err := l.procs.Open(info)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err == nil {
			err = h.Stop(ctx, 0)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("end shim: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeCachedResults removes the CNI library's cached results of pods that were not
// stopped in order. They are found by the name of the root's network.
func removeCachedResults(owner roots.Owner) error {
	files, err := filepath.Glob(filepath.Join(cniResults, owner.NetworkName()+"-*"))
	if err != nil {
		return fmt.Errorf("list cached network results: %w", err)
	}
	var errs []error
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeState removes the files that mean nothing without the runtime.
func removeState(p paths) error {
	for _, dir := range []string{p.run, p.cni} {
		// A removal must never reach into a mount.
		mounts, err := mountsBelow(dir)
		if err != nil {
			return err
		}
		if len(mounts) > 0 {
			return fmt.Errorf("%s is kept: %s is still mounted", dir, mounts[0])
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
