// Package features holds what the container runtime reports of itself: its name, its handlers, and what it
// supports. Parts of the agent are made before the runtime has answered, and read the features when a pod needs
// them. No pod is acted on before the first list of pods, and there is no list before the features are known.
// The functions of check.go make a single call to a runtime that may not be up.
package features

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"berth/internal/host/selinux"
	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// Runtime is the part of a container runtime that reports its features. See cri.Client.
type Runtime interface {
	Version(ctx context.Context) (cri.Version, error)
	Info(ctx context.Context) (cri.Info, error)
	// Labels reports whether the runtime gives containers SELinux labels.
	Labels(ctx context.Context) (bool, error)
	List(ctx context.Context) (map[pod.UID]*pod.Observed, error)
}

// Features are the features of one runtime. They are read once.
type Features struct {
	runtime Runtime
	up      <-chan struct{} // closed once the runtime came up
	log     *slog.Logger

	known chan struct{} // closed once the fields below are set

	mu     sync.Mutex
	name   string // the prefix of container IDs in a status
	info   cri.Info
	labels bool // containers get SELinux labels
}

// New returns features that are not known yet. up is closed once the runtime came up.
func New(runtime Runtime, up <-chan struct{}, log *slog.Logger) *Features {
	return &Features{runtime: runtime, up: up, known: make(chan struct{}), log: log}
}

// Await waits until the features are known, at most for the timeout of users' requests.
func (f *Features) Await(ctx context.Context) error {
	_, err := cri.WithUserTimeout(ctx, func(ctx context.Context) (struct{}, error) {
		select {
		case <-f.known:
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, errors.New("it has not come up since the agent started")
		}
	})
	return err
}

// read waits until the runtime is up, reads its features, and calls settle before the features
// count as known. One goroutine at a time calls it.
func (f *Features) read(ctx context.Context, settle func(context.Context) error) error {
	select {
	case <-f.known:
		return nil
	default:
	}
	select {
	case <-f.up:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	version, err := f.runtime.Version(ctx)
	if err != nil {
		return err
	}
	info, err := f.runtime.Info(ctx)
	if err != nil {
		return err
	}
	labels, err := f.labelsContainers(ctx)
	if err != nil {
		return err
	}
	if err := settle(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.info, f.labels = version.Name, info, labels
	close(f.known)
	f.log.Info("the container runtime is ready", "runtime", version.Name, "version", version.Version)
	return nil
}

// List returns a function that lists the pods of the runtime, once its features are known.
func (f *Features) List(settle func(context.Context) error) func(context.Context) (map[pod.UID]*pod.Observed, error) {
	return func(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
		if err := f.read(ctx, settle); err != nil {
			return nil, fmt.Errorf("ask the container runtime what it can do: %w", err)
		}
		return f.runtime.List(ctx)
	}
}

// RuntimeName returns the name of the runtime, or "" while it is not known.
func (f *Features) RuntimeName() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name
}

// Handlers returns the runtime handlers, which RuntimeClasses refer to by name.
func (f *Features) Handlers() []cri.Handler {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info.Handlers
}

// StrictGroups reports whether the runtime supports supplementalGroupsPolicy Strict.
func (f *Features) StrictGroups() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info.SupplementalGroups
}

// CheckLabel returns an error if the loaded policy does not know a SELinux label. Where containers get no labels, no
// label is refused: the pods that ask for one run without it, as with the kubelet.
func (f *Features) CheckLabel(asked selinux.Label) error {
	if !f.labeling() {
		return nil
	}
	return asked.Check()
}

// FileLabel returns the label of the files of a pod that asks for a SELinux label, or "" where containers get no labels.
func (f *Features) FileLabel(asked selinux.Label) (string, error) {
	if !f.labeling() {
		return "", nil
	}
	return asked.FileLabel()
}

func (f *Features) labeling() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.labels
}

// labelsContainers reports whether containers get SELinux labels. The runtime is asked, too: the bundled one
// may have been started before this machine could label containers.
func (f *Features) labelsContainers(ctx context.Context) (bool, error) {
	if can := selinux.CanLabel() == nil; !can {
		return false, nil
	}
	return f.runtime.Labels(ctx)
}
