package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"berth/internal/cli/cmdutil"
	"berth/internal/config"
)

// onceRoot is the root directory of 'run --once'.
type onceRoot struct {
	dir     string
	created bool // by newOnceRoot, which means that remove may remove it
	keep    bool // app.Down has failed, and can be tried again by hand
}

// newOnceRoot returns the directory of --root-dir, or makes a temporary one.
func newOnceRoot(cmd *cobra.Command) (*onceRoot, error) {
	if cmd.Flags().Changed(cmdutil.FlagRootDir) {
		dir, err := filepath.Abs(cmdutil.RootDir(cmd))
		if err != nil {
			return nil, fmt.Errorf("find the root directory: %w", err)
		}
		return &onceRoot{dir: dir}, nil
	}
	dir, err := os.MkdirTemp("/tmp", "berth-") // short: there are sockets below it
	if err != nil {
		return nil, fmt.Errorf("make a root directory: %w", err)
	}
	return &onceRoot{dir: dir, created: true}, cmd.Flags().Set(cmdutil.FlagRootDir, dir)
}

func (r *onceRoot) remove() error {
	if !r.created || r.keep {
		return nil
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("remove the root directory: %w", err)
	}
	return nil
}

// isolate replaces the names, directories and ports that a configuration file may have for another agent of the
// machine. The pod CIDR stays if it was given on the command line.
func isolate(c *config.Config, network bool) {
	c.CgroupRoot = ""
	if !network {
		c.PodCIDR = netip.Prefix{}
	}
	c.PodLogsDir = filepath.Join(c.RootDir, "log", "pods")
	c.LogLinksDir = filepath.Join(c.RootDir, "log", "containers")
	c.API.Port, c.API.ReadOnlyPort, c.API.HealthzPort = 0, 0, 0
}

// prepare writes the manifest, the link to the images and the settings into the root directory.
func (o *onceFlags) prepare(c *config.Config, manifest []byte) error {
	entries, err := os.ReadDir(filepath.Join(c.RootDir, "pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for pods of others: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("there are pods of another run in %s, which would be stopped: run 'berth down --root-dir %s' first, or leave out --root-dir", c.RootDir, c.RootDir)
	}
	if o.images != "" {
		if err := linkImages(c.RootDir, o.images); err != nil {
			return err
		}
	}
	// Manifests and sources of an earlier run are not wanted any more.
	for _, dir := range []string{c.ManifestDir, filepath.Join(c.RootDir, sourcesDir)} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("make a folder for the manifest: %w", err)
		}
	}
	if err := os.MkdirAll(c.ManifestDir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the manifest: %w", err)
	}
	if err := os.WriteFile(onceManifest(c), manifest, 0o600); err != nil {
		return fmt.Errorf("write down the manifest: %w", err)
	}
	return c.Save()
}

// linkImages links the directory from which the agent imports images to folder.
func linkImages(root, folder string) error {
	images, err := filepath.Abs(folder)
	if err == nil {
		_, err = os.ReadDir(images)
	}
	if err != nil {
		return fmt.Errorf("look for images: %w", err)
	}
	// A link of an earlier run and an empty directory can be removed, a directory with images can't.
	link := imagesLink(root)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there are images in %s already: put those of %s beside them, and leave out --images (%w)", link, images, err)
	}
	if err := os.Symlink(images, link); err != nil {
		return fmt.Errorf("use the images of %s: %w", images, err)
	}
	return nil
}

// imagesLink returns the directory from which the agent imports images.
func imagesLink(root string) string { return filepath.Join(root, "images") }

// unlinkImages removes the link of linkImages: the next run may have no --images.
func (o *onceFlags) unlinkImages(root string) error {
	if o.images == "" {
		return nil
	}
	if err := os.Remove(imagesLink(root)); err != nil {
		return fmt.Errorf("leave the images of %s: %w", o.images, err)
	}
	return nil
}

// onceManifest returns the path of the manifest. It differs from run to run, so that the UID of the pod does, too.
func onceManifest(c *config.Config) string {
	return filepath.Join(c.ManifestDir, fmt.Sprintf("pod-%d.yaml", os.Getpid()))
}

// sourcesDir is the directory below the root in which sources keep their last good manifests.
const sourcesDir = "sources"
