package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
	"berth/internal/runtime/ociarchive"
)

// startServices starts the goroutines that one run of containerd needs: for the sandbox image,
// the image archives, and the size of its log. The channel that it returns is closed when the
// archives that were in the folder at the start have been imported.
func (r *Runtime) startServices(group *run.Group) <-chan struct{} {
	_ = r.reserve.Save() // statefile tries again
	prepared := make(chan struct{})
	notices := make(chan struct{}, 1)
	group.Go("containerd-log", func(ctx context.Context) { boundLog(ctx, r.paths.log, r.log) })
	group.Go("images-watch", func(ctx context.Context) {
		if err := watchFolder(ctx, r.paths.images, notices); err != nil {
			r.log.Warn("new image archives are noticed late", "after", auditInterval, "err", err)
		}
	})
	network := make(chan struct{}, 1)
	group.Go("network-watch", func(ctx context.Context) {
		if err := watchFolder(ctx, r.paths.cniConf, network); err != nil {
			r.log.Debug("a change of the network is noticed late", "err", err)
		}
	})
	group.Go("network-monitor", func(context.Context) {
		for range network {
			r.cfg.NetworkChanged()
		}
	})
	group.Go("images", func(ctx context.Context) {
		c, err := r.newClient()
		if err != nil {
			r.log.Error("images can not be imported", "err", err)
			return
		}
		defer c.close()
		r.keepSandboxImage(ctx, c)
		newImporter(r.paths, r.imported, c, r.cfg.Imported, r.log).run(ctx, notices, func() { close(prepared) })
	})
	return prepared
}

// keepSandboxImage retries until the sandbox image is imported: without it, no pod starts.
func (r *Runtime) keepSandboxImage(ctx context.Context, c *client) {
	var streak logonce.Streak
	for {
		err := r.ensureSandboxImage(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		if streak.Failed(time.Now()) {
			r.log.Error("sandbox image is not there: no pod can start; trying again", "err", err)
		}
		if run.Sleep(ctx, retryInterval) != nil {
			return
		}
	}
}

// sandboxLabel is the label of the sandbox image that holds the digest of its program, so that a
// new version of the program replaces the image.
const sandboxLabel = "berth.dev/pause-digest"

func (r *Runtime) ensureSandboxImage(ctx context.Context, c *client) error {
	program, err := os.ReadFile(r.paths.pause)
	if err != nil {
		return fmt.Errorf("read program of the sandbox image: %w", err)
	}
	sum := sha256.Sum256(program)
	digest := hex.EncodeToString(sum[:])
	labels, there, err := c.labels(ctx, SandboxImage)
	if err != nil {
		return err
	}
	if there && labels[sandboxLabel] == digest {
		return c.awaitImages(ctx, []string{SandboxImage})
	}
	var archive bytes.Buffer
	if err := ociarchive.Write(&archive, sandboxImage(program)); err != nil {
		return fmt.Errorf("make sandbox image: %w", err)
	}
	names, err := c.importArchive(ctx, &archive, "localhost/berth-pause", map[string]string{sandboxLabel: digest})
	if err != nil {
		return fmt.Errorf("import sandbox image: %w", err)
	}
	return c.awaitImages(ctx, names)
}

func sandboxImage(program []byte) ociarchive.Image {
	return ociarchive.Image{
		Tag:        SandboxImage,
		Files:      []ociarchive.File{{Path: "/pause", Data: program, Mode: 0o755}},
		Entrypoint: []string{"/pause"},
		User:       "65535:65535",
	}
}
