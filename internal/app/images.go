package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/core/agent"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/credential"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/image"
	"berth/internal/runtime/imagegc"
	"berth/internal/telemetry/metrics"
)

// newKeyring makes the keyring of this machine.
func newKeyring(c *config.Config, accounts credential.Accounts, m *metrics.Metrics, log *slog.Logger) (*credential.Node, error) {
	out := credential.Config{Accounts: accounts, Log: log}
	out.Files, out.Legacy = credential.LoginFiles(c.RootDir)
	if c.Images.ProviderConfig != "" {
		var err error
		if out.Plugins, err = credential.LoadPlugins(c.Images.ProviderConfig, c.Images.ProviderBin, m.CredentialPluginRan); err != nil {
			return nil, err
		}
		m.CredentialPluginsConfigured(out.Plugins.Hash())
	}
	return credential.New(out)
}

// imageRecords returns the directory of the records of images.
func imageRecords(c *config.Config) string { return filepath.Join(c.RootDir, "image_manager") }

// newRecords opens the records of which image was pulled with which credentials.
func newRecords(c *config.Config, log *slog.Logger) *image.Records {
	return image.OpenRecords(imageRecords(c), image.Policy{Verify: c.Images.Verify, Allowed: c.Images.Preloaded}, log)
}

// newImages makes the manager that pulls images.
func newImages(ctx context.Context, d *deps, loop *syncLoop, gc *imagegc.Collector) (*image.Manager, error) {
	c := d.config
	ring, err := newKeyring(c, loop.objects, d.telemetry.Metrics, d.log)
	if err != nil {
		return nil, err
	}
	settings := image.Config{
		Runtime: d.client, Log: d.log, Parallel: c.ParallelPulls, PerSecond: c.Images.PullQPS, Burst: c.Images.PullBurst,
		Objects: loop.objects, Keyring: ring, Records: d.records, Size: gc.Size,
		Enqueue: loop.Agent.Enqueue, Explain: cri.Reason, Pulled: d.telemetry.Pulled(d.client.ImageSize),
		Ensured: d.telemetry.ImageEnsured, Checked: d.telemetry.ImageAccessChecked, GaveUp: cri.GaveUp,
	}
	if b := d.bundle; b != nil {
		settings.PullProgress = func(ctx context.Context, repository string) (done, total int64) {
			p, _ := b.Progress(ctx, repository) // a failed call is repeated soon
			return p.Done, p.Total
		}
		settings.PullTimeout = b.PullTimeout()
	}
	return image.New(ctx, settings)
}

// newImageGC makes the collector that removes unused images.
func newImageGC(d *deps, loop *agent.Agent) (*imagegc.Collector, error) {
	c, client := d.config, d.client
	return imagegc.New(imagegc.Config{
		Policy: imagegc.Policy{High: c.Images.GCHigh, Low: c.Images.GCLow, MinAge: c.Images.GCMinAge, MaxAge: c.Images.GCMaxAge},
		Images: func(ctx context.Context) ([]imagegc.RuntimeImage, error) {
			images, err := client.Images(ctx)
			var out []imagegc.RuntimeImage
			for _, i := range images {
				out = append(out, imagegc.RuntimeImage{ID: i.ID, Names: slices.Concat(i.Tags, i.Digests), Size: i.Size, Pinned: i.Pinned})
			}
			return out, err
		},
		InUse: func(ctx context.Context) (map[string]string, error) { return imagesInUse(ctx, c.RootDir, client, loop) },
		Disk: func(ctx context.Context) (imagegc.Disk, error) {
			dir, err := client.ImageDir(ctx)
			if err != nil {
				return imagegc.Disk{}, err
			}
			return imagegc.ReadDisk(dir)
		},
		Remove: client.RemoveImage, Removed: d.telemetry.Metrics.ImageCollected, Short: d.state.full, PodsSynced: loop.Synced(),
		OnRound: func(there map[string]bool, began time.Time) {
			if err := d.records.Prune(there, began); err != nil {
				d.log.Warn("records of images that are gone are left", "err", err)
			}
			d.state.Retry() // there may be room now
		},
		Warn: func(reason, message string) { d.events.recorder.RecordNode(v1.EventTypeWarning, reason, message) },
		File: d.state.File(filepath.Join(imageRecords(c), "used.json"), "when images were used"), Log: d.log,
	})
}

// imagesInUse returns the images that must not be removed, each with the reason.
func imagesInUse(ctx context.Context, root string, client *cri.Client, loop *agent.Agent) (map[string]string, error) {
	held, err := client.ListAll(ctx) // pods of other roots need their images, too
	if err != nil {
		return nil, err
	}
	desired, _ := loop.List()
	archived, err := bundle.Archived(root)
	if err != nil {
		return nil, err
	}
	return imagegc.InUse(held, desired, archived), nil
}
