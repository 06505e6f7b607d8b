package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"berth/internal/cri"
	"berth/internal/pod"
)

// features is what the container runtime says of itself. Parts of the agent are made
// before the runtime has answered, and read it when a pod needs it: no pod is acted on
// before the first list, and there is no list before it is known.
type features struct {
	client *cri.Client
	up     <-chan struct{} // closed once the runtime came up
	log    *slog.Logger

	mu     sync.Mutex
	known  bool
	name   string // how container IDs begin in a status
	info   cri.Info
	labels bool // containers get SELinux labels
}

var errRuntimeNotUp = errors.New("the container runtime has not come up since the agent started: 'berth get node' tells more, try again later")

// check is nil once the features are known.
func (f *features) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		return errRuntimeNotUp
	}
	return nil
}

// read waits until the runtime is up, asks it once, and calls settle before anybody is told
// the answer.
func (f *features) read(ctx context.Context, settle func(context.Context) error) error {
	if f.check() == nil {
		return nil
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
	labels, err := hasLabels(ctx, f.client)
	if err != nil {
		return err
	}
	if err := settle(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.name, f.info, f.labels = true, version.Name, info, labels
	f.log.Info("the container runtime is ready", "runtime", version.Name, "version", version.Version)
	return nil
}

// list lists what the runtime holds, once its features are known.
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

// strictGroups tells whether the runtime can keep out the groups of an image.
func (f *features) strictGroups() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info.SupplementalGroups
}

// seLinux tells whether containers are labelled.
func (f *features) seLinux() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.labels
}
