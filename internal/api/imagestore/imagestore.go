// Package imagestore pulls, loads and removes images for users of the local API.
package imagestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"berth/internal/api"
	"berth/internal/lib/progress"
	"berth/internal/lib/run"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/imagegc"
)

// Store implements localapi.Images.
type Store struct {
	// AwaitRuntime waits until the runtime is up for the first time, and fails if that takes too
	// long.
	AwaitRuntime func(context.Context) error
	Runtime      interface {
		ImageRef(ctx context.Context, image string) (string, error)
		RemoveImage(ctx context.Context, ref string) error
	}
	Images interface {
		Pull(ctx context.Context, image string) error
		Progress(image string) progress.Progress
		Loaded(ctx context.Context, images []string) error
	}
	GC     *imagegc.Collector
	Bundle *bundle.Runtime // nil if berth does not run the runtime itself
	Log    *slog.Logger
}

// progressInterval is the time between two reports of the progress of a pull.
const progressInterval = 500 * time.Millisecond

// Pull implements localapi.Images.
func (s Store) Pull(ctx context.Context, name string, report func(progress.Progress)) error {
	if err := s.AwaitRuntime(ctx); err != nil {
		return err
	}
	group := run.NewGroup(ctx, s.Log)
	defer group.Stop()
	pulled := make(chan error, 1)
	group.Go("pull by hand", func(ctx context.Context) { pulled <- s.Images.Pull(ctx, name) })
	for {
		select {
		case err := <-pulled:
			return err
		case <-time.After(progressInterval):
			if p := s.Images.Progress(name); p.Known() {
				report(p)
			}
		}
	}
}

// Load implements localapi.Images.
func (s Store) Load(ctx context.Context, name string, archive io.Reader, received func()) ([]string, error) {
	if s.Bundle == nil {
		return nil, errors.New("berth runs with a container runtime that it was given, and can't load images into it: use the tools of that runtime, or 'berth image pull'")
	}
	if err := s.AwaitRuntime(ctx); err != nil {
		return nil, err
	}
	names, err := s.Bundle.Load(ctx, name, archive, received)
	if err != nil {
		return nil, err
	}
	return names, s.Images.Loaded(ctx, names)
}

// Remove implements localapi.Images.
func (s Store) Remove(ctx context.Context, name string) error {
	ref, err := s.Runtime.ImageRef(ctx, name)
	switch {
	case err != nil:
		return err
	case ref == "":
		return fmt.Errorf("there is no image %q: 'berth image ls' shows those that there are", name)
	}
	report, err := s.GC.Preview(ctx, true)
	if err != nil {
		return err
	}
	for _, v := range report.Verdicts {
		if v.ID == ref && (v.KeptBy != "" || v.Pinned) {
			return fmt.Errorf("image %q can't be removed: %s", name, v.Message)
		}
	}
	return s.Runtime.RemoveImage(ctx, ref)
}

// Collect implements localapi.Images.
func (s Store) Collect(ctx context.Context, dryRun, all bool) (api.GCReport, error) {
	collect := s.GC.Collect
	switch {
	case dryRun:
		collect = func(ctx context.Context) (imagegc.Report, error) { return s.GC.Preview(ctx, all) }
	case all:
		collect = s.GC.Free
	}
	r, err := collect(ctx)
	if err != nil {
		return api.GCReport{}, err
	}
	out := api.GCReport{
		DryRun: dryRun, Capacity: r.Disk.Capacity, Available: r.Disk.Available, High: r.Policy.High, Low: r.Policy.Low,
		Freed: r.Freed, Missing: r.Missing, Items: []api.GCItem{},
	}
	for _, v := range r.Verdicts {
		item := api.GCItem{ID: v.ID, Name: v.Name, Size: v.Size, Remove: v.Remove, Message: v.Message}
		if !v.LastUsed.IsZero() {
			item.LastUsed = &v.LastUsed
		}
		if dryRun && v.Remove {
			out.Freed += v.Size
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}
