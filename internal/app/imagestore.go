package app

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
	"berth/internal/runtime/cri"
	"berth/internal/runtime/image"
	"berth/internal/runtime/imagegc"
)

// imageStore lets the local API manage images.
type imageStore struct {
	features *features
	client   *cri.Client
	images   *image.Manager
	gc       *imagegc.Collector
	bundle   *bundle.Runtime // nil if the runtime was given
	log      *slog.Logger
}

// tellEvery is between two looks at how a pull goes.
const tellEvery = 500 * time.Millisecond

// Pull implements server.Images.
func (s imageStore) Pull(ctx context.Context, name string, tell func(progress.Progress)) error {
	if err := s.features.await(ctx); err != nil {
		return err
	}
	group := run.NewGroup(ctx, s.log)
	defer group.Stop()
	pulled := make(chan error, 1)
	group.Go("pull by hand", func(ctx context.Context) { pulled <- s.images.Pull(ctx, name) })
	for {
		select {
		case err := <-pulled:
			return err
		case <-time.After(tellEvery):
			if p := s.images.Progress(name); p.Known() {
				tell(p)
			}
		}
	}
}

// Load implements server.Images.
func (s imageStore) Load(ctx context.Context, name string, archive io.Reader, received func()) ([]string, error) {
	if s.bundle == nil {
		return nil, errors.New("berth runs with a container runtime that it was given, and can't load images into it: use the tools of that runtime, or 'berth image pull'")
	}
	if err := s.features.await(ctx); err != nil {
		return nil, err
	}
	names, err := s.bundle.Load(ctx, name, archive, received)
	if err != nil {
		return nil, err
	}
	return names, s.images.Loaded(ctx, names)
}

// Remove implements server.Images.
func (s imageStore) Remove(ctx context.Context, name string) error {
	ref, err := s.client.ImageRef(ctx, name)
	switch {
	case err != nil:
		return err
	case ref == "":
		return fmt.Errorf("there is no image %q: 'berth image ls' shows those that there are", name)
	}
	report, err := s.gc.Preview(ctx, true)
	if err != nil {
		return err
	}
	for _, v := range report.Verdicts {
		if v.ID == ref && (v.KeptBy != "" || v.Pinned) {
			return fmt.Errorf("image %q can't be removed: %s", name, v.Why)
		}
	}
	return s.client.RemoveImage(ctx, ref)
}

// Collect implements server.Images.
func (s imageStore) Collect(ctx context.Context, dryRun, all bool) (api.GCReport, error) {
	collect := s.gc.Collect
	switch {
	case dryRun:
		collect = func(ctx context.Context) (imagegc.Report, error) { return s.gc.Preview(ctx, all) }
	case all:
		collect = s.gc.Free
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
		item := api.GCItem{ID: v.ID, Name: v.Name, Size: v.Size, Remove: v.Remove, Why: v.Why}
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
