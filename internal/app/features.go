package app

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

// features holds what the container runtime says of itself. Parts of the agent are made before the
// runtime has answered, and read the features when a pod needs them: no pod is acted on before the first
// list, and there is no list before the features are known.
type features struct {
	client *cri.Client
	up     <-chan struct{} // closed once the runtime came up
	log    *slog.Logger

	known chan struct{} // closed once the fields below are set

	mu     sync.Mutex
	name   string // how container IDs begin in a status
	info   cri.Info
	labels bool // containers get SELinux labels
}

func newFeatures(client *cri.Client, up <-chan struct{}, log *slog.Logger) *features {
	return &features{client: client, up: up, known: make(chan struct{}), log: log}
}

// await waits until the features are known, up to userTimeout.
func (f *features) await(ctx context.Context) error {
	_, err := withUserTimeout(ctx, func(ctx context.Context) (struct{}, error) {
		select {
		case <-f.known:
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, errors.New("it has not come up since the agent started")
		}
	})
	return err
}

// read waits until the runtime is up, asks it once, and calls settle before the features count as
// known. It is called by one goroutine at a time.
func (f *features) read(ctx context.Context, settle func(context.Context) error) error {
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
	version, err := f.client.Version(ctx)
	if err != nil {
		return err
	}
	info, err := f.client.Info(ctx)
	if err != nil {
		return err
	}
	labels, err := labelsContainers(ctx, f.client)
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

// list returns a function that lists the pods of the runtime, once its features are known.
func (f *features) list(settle func(context.Context) error) func(context.Context) (map[pod.UID]*pod.Observed, error) {
	return func(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
		if err := f.read(ctx, settle); err != nil {
			return nil, fmt.Errorf("ask the container runtime what it can do: %w", err)
		}
		return f.client.List(ctx)
	}
}

func (f *features) runtimeName() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name
}

func (f *features) handlers() []cri.Handler {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info.Handlers
}

// strictGroups tells whether the runtime supports supplementalGroupsPolicy Strict.
func (f *features) strictGroups() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info.SupplementalGroups
}

// seLinux tells whether containers get SELinux labels.
func (f *features) seLinux() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.labels
}

// labelsContainers tells whether containers get SELinux labels. The runtime is asked, too: the bundled one
// may have been started before the machine could label them.
func labelsContainers(ctx context.Context, client *cri.Client) (bool, error) {
	if can := selinux.CanLabel() == nil; !can {
		return false, nil
	}
	return client.Labels(ctx)
}
