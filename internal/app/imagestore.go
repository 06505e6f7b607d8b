package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/inventory"
	"berth/internal/config"
	"berth/internal/lib/progress"
	"berth/internal/lib/run"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/credential"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/image"
	"berth/internal/runtime/imagegc"
	"berth/internal/runtime/keyring"
)

// newKeyring is what this machine can show to registries: where the users of a
// kubelet put their logins, and below the root directory.
func newKeyring(c *config.Config, accounts credential.Accounts, log *slog.Logger) (*credential.Node, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/root"
	}
	out := credential.Config{Accounts: accounts, Log: log}
	for _, dir := range []string{c.RootDir, "/var/lib/kubelet", filepath.Join(home, ".docker"), "/.docker"} {
		out.Files = append(out.Files, filepath.Join(dir, "config.json"))
	}
	for _, dir := range []string{c.RootDir, "/var/lib/kubelet", home, "/"} {
		out.Legacy = append(out.Legacy, filepath.Join(dir, ".dockercfg"))
	}
	if c.Images.ProviderConfig != "" {
		if out.Plugins, err = credential.LoadPlugins(c.Images.ProviderConfig, c.Images.ProviderBin); err != nil {
			return nil, err
		}
	}
	return credential.New(out)
}

// imageRecords is where the memory of images is kept.
func imageRecords(c *config.Config) string { return filepath.Join(c.RootDir, "image_manager") }

// newRecords opens the memory of who pulled what.
func newRecords(c *config.Config, log *slog.Logger) *image.Records {
	return image.OpenRecords(imageRecords(c), image.Policy{Verify: c.Images.Verify, Allowed: c.Images.Preloaded}, log)
}

// makeImages makes what pulls images, and what removes them.
func (n *node) makeImages(c *config.Config, in surroundings, records *image.Records) error {
	ring, err := newKeyring(c, n.objects, n.log)
	if err != nil {
		return err
	}
	if n.imageGC, err = n.newCollector(c, in, records); err != nil {
		return err
	}
	settings := image.Config{
		Runtime: in.client, Log: n.log, Parallel: c.ParallelPulls, PerSecond: c.Images.PullQPS, Burst: c.Images.PullBurst,
		Objects: n.objects, Keyring: ring, Records: records, Size: n.imageGC.Size,
		Enqueue: n.agent.Enqueue, Explain: cri.Reason, Pulled: in.watcher.Pulled(in.client.ImageSize),
		GaveUp: cri.GaveUp,
	}
	if b := in.bundle; b != nil {
		settings.Arrived = func(ctx context.Context, repository string) (done, total int64) {
			p, _ := b.Progress(ctx, repository) // it is asked again soon
			return p.Done, p.Total
		}
		settings.Patience = b.PullPatience()
	}
	n.images, err = image.New(n.group.Context(), settings)
	return err
}

func (n *node) newCollector(c *config.Config, in surroundings, records *image.Records) (*imagegc.Collector, error) {
	client := in.client
	return imagegc.New(imagegc.Config{
		Policy: imagegc.Policy{High: c.Images.GCHigh, Low: c.Images.GCLow, MinAge: c.Images.GCMinAge, MaxAge: c.Images.GCMaxAge},
		Images: func(ctx context.Context) ([]imagegc.Found, error) {
			images, err := client.Images(ctx)
			var out []imagegc.Found
			for _, i := range images {
				out = append(out, imagegc.Found{ID: i.ID, Names: slices.Concat(i.Tags, i.Digests), Size: i.Size, Pinned: i.Pinned})
			}
			return out, err
		},
		InUse:  func(ctx context.Context) (map[string]string, error) { return n.imagesInUse(ctx, c.RootDir, client) },
		Disk:   func(ctx context.Context) (imagegc.Disk, error) { return imageDisk(ctx, client) },
		Remove: client.RemoveImage, Short: in.full, Known: n.agent.Synced(),
		Rounds: func(there map[string]bool, began time.Time) {
			if err := records.Prune(there, began); err != nil {
				n.log.Warn("records of images that are gone are left", "err", err)
			}
			in.state.Retry() // there may be room now
		},
		Warn: func(reason, message string) { n.diary.recorder.RecordNode(v1.EventTypeWarning, reason, message) },
		File: in.state.File(filepath.Join(imageRecords(c), "used.json"), "when images were used"), Log: n.log,
	})
}

// imagesInUse says why images may not go: their containers are there, or will be.
func (n *node) imagesInUse(ctx context.Context, root string, client *cri.Client) (map[string]string, error) {
	used := map[string]string{}
	running, err := client.ListAll(ctx) // pods of other roots need their images, too
	if err != nil {
		return nil, err
	}
	for _, p := range running {
		why := fmt.Sprintf("pod %s/%s uses it", p.Namespace, p.Name)
		for _, c := range p.Containers {
			used[c.Image], used[c.ImageRef] = why, why
		}
	}
	pods, _ := n.agent.List()
	for _, p := range pods {
		for name := range inventory.ImagesOf(p) {
			why := fmt.Sprintf("pod %s/%s uses it", p.Namespace, p.Name)
			used[name] = why
			if full, err := keyring.FullName(name); err == nil {
				used[full] = why
			}
		}
	}
	names, err := bundle.Archived(root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if used[name] == "" {
			used[name] = "its archive is in the folder of images"
		}
	}
	delete(used, "")
	return used, nil
}

// imageDisk measures the file system that holds the images.
func imageDisk(ctx context.Context, client *cri.Client) (imagegc.Disk, error) {
	dir, err := imageDir(ctx, client)
	if err != nil {
		return imagegc.Disk{}, err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return imagegc.Disk{}, fmt.Errorf("measure the file system of images: %w", err)
	}
	return imagegc.Disk{Capacity: int64(s.Blocks) * s.Bsize, Available: int64(s.Bavail) * s.Bsize}, nil // no disk is that large
}

// imageDir is where the runtime keeps images.
func imageDir(ctx context.Context, client *cri.Client) (string, error) {
	where, err := client.Filesystems(ctx)
	if err != nil {
		return "", err
	}
	if len(where.Images) == 0 || where.Images[0].Mountpoint == "" {
		return "", errors.New("the runtime does not say where it keeps images")
	}
	return where.Images[0].Mountpoint, nil
}

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
