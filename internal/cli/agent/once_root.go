package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"berth/internal/app"
	"berth/internal/cli/cmdutil"
	"berth/internal/config"
)

// Where a pod is run once.

// onceRoot is the root directory of a run.
type onceRoot struct {
	dir     string
	created bool // by us
	keep    bool // there is something left in it
}

// newOnceRoot is the root directory that was given, or one of its own.
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

// isolate drops what a configuration file for another agent of the machine may say of names
// and ports: a run has its own. The pod CIDR stays if it was given on the command line.
func isolate(c *config.Config, network bool) {
	c.CgroupRoot = ""
	if !network {
		c.PodCIDR = netip.Prefix{}
	}
	c.PodLogsDir = filepath.Join(c.RootDir, "log", "pods")
	c.LogLinksDir = filepath.Join(c.RootDir, "log", "containers")
	c.API.Port, c.API.ReadOnlyPort, c.API.HealthzPort = 0, 0, 0
}

// prepare puts what the agent is to find into its root directory.
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
	// What an earlier run had is no more.
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
	return app.SaveSettings(c)
}

// linkImages makes the folder the one from which the agent imports images.
func linkImages(root, folder string) error {
	images, err := filepath.Abs(folder)
	if err == nil {
		_, err = os.ReadDir(images)
	}
	if err != nil {
		return fmt.Errorf("look for images: %w", err)
	}
	// What is there is a link of an earlier run, or an empty folder, or somebody's own.
	link := imagesLink(root)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there are images in %s already: put those of %s beside them, and leave out --images (%w)", link, images, err)
	}
	if err := os.Symlink(images, link); err != nil {
		return fmt.Errorf("use the images of %s: %w", images, err)
	}
	return nil
}

// imagesLink is where images are imported from, below the root directory.
func imagesLink(root string) string { return filepath.Join(root, "images") }

// unlinkImages makes the images those of nobody: the next run may have none.
func (o *onceFlags) unlinkImages(root string) error {
	if o.images == "" {
		return nil
	}
	if err := os.Remove(imagesLink(root)); err != nil {
		return fmt.Errorf("leave the images of %s: %w", o.images, err)
	}
	return nil
}

// onceManifest is where the agent finds the manifest. In each run it is another
// place, so that the pod is another one, too.
func onceManifest(c *config.Config) string {
	return filepath.Join(c.ManifestDir, fmt.Sprintf("pod-%d.yaml", os.Getpid()))
}

// sourcesDir is where sources remember what they had, below the root directory.
const sourcesDir = "sources"
