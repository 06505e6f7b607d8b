// Package images has the commands of container images: get images, image and gc.
package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api/client"
	"berth/internal/api/inventory"
	"berth/internal/cli/cmdutil"
	"berth/internal/lib/progress"
)

// Commands returns the commands of images.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{Get: newGetImagesCommand(), Other: []*cobra.Command{newImageCommand(), newGCCommand()}}
}

func newImageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "image",
		Aliases: []string{"images"},
		Short:   "Manage the images of this machine",
		Example: `  berth image ls
  berth image pull localhost/app:1
  berth image load app.tar
  berth image rm localhost/app:1`,
		Args: cmdutil.NoArgs,
	}
	list := newGetImagesCommand()
	list.Use, list.Aliases, list.Example = "ls", []string{"list"}, "  berth image ls\n  berth image ls -o wide"
	cmd.AddCommand(list, newImagePullCommand(), newImageLoadCommand(), newImageRemoveCommand())
	return cmd
}

func newImagePullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Fetch images from their registries",
		Long: `Pull fetches images, with the credentials of this machine. All pods may use them then.

A pull that is interrupted ends; what came is kept for the next one.`,
		Example:           "  berth image pull localhost/app:1",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, images []string) error {
			return cmdutil.WithClient(cmd, func(ctx context.Context, c *client.Client) error {
				for _, image := range images {
					b := newBar(cmd, "pull "+image)
					err := c.PullImage(ctx, image, b.show)
					b.end(err)
					if err != nil {
						return fmt.Errorf("pull %s: %w", image, err)
					}
				}
				return nil
			})
		},
	}
}

func newImageLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE",
		Short: "Take in an archive of images",
		Long: `Load takes in the images of an archive, as 'docker save' and others write them: OCI or docker, packed
or not. - reads it from standard input. An image in it that has no name is called localhost/FILE.

Only the runtime that berth brings along can do that. Archives in the folder images below the
root directory are taken in by themselves, and kept.`,
		Example: "  berth image load app.tar\n  docker save localhost/app:1 | berth image load -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, name, size, err := openArchive(cmd, args[0])
			if err != nil {
				return err
			}
			defer func() { _ = archive.Close() }()
			return cmdutil.WithClient(cmd, func(ctx context.Context, c *client.Client) error {
				b := newBar(cmd, "load "+args[0])
				names, err := c.LoadImages(ctx, name, newCountingReader(archive, size, b.show))
				b.end(err)
				if err != nil {
					return fmt.Errorf("load %s: %w", args[0], err)
				}
				for _, n := range names {
					_, _ = fmt.Fprintln(cmd.OutOrStdout(), n)
				}
				return nil
			})
		},
	}
}

func newImageRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm IMAGE...",
		Aliases: []string{"remove"},
		Short:   "Remove images that no pod uses",
		Long: `Rm removes images. An image goes with all of its names: container runtimes can't take away
one of them. Those that went along are printed.`,
		Example:           "  berth image rm localhost/app:1",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, images []string) error {
			return cmdutil.WithClient(cmd, func(ctx context.Context, c *client.Client) error {
				for _, image := range images {
					list, err := c.Images(ctx)
					if err != nil {
						return err
					}
					if err := c.RemoveImage(ctx, image); err != nil {
						return err
					}
					along := ""
					if others := inventory.OtherNames(list.Items, image); len(others) > 0 {
						along = ", and with it " + strings.Join(others, ", ")
					}
					_, _ = fmt.Fprintf(cmd.OutOrStdout(), "image %s removed%s\n", image, along)
				}
				return nil
			})
		},
	}
}

// openArchive opens an archive of images. name is for images in it that have none; size is 0 if it is not known.
func openArchive(cmd *cobra.Command, path string) (archive io.ReadCloser, name string, size int64, err error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), "stdin", 0, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", 0, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: give an archive, such as one of 'docker save'", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, "", 0, err
	}
	name, _, _ = strings.Cut(filepath.Base(path), ".")
	return f, name, info.Size(), nil
}

// countingReader reports the progress of a read.
type countingReader struct {
	io.Reader
	done, total int64
	meter       *progress.Meter
	show        func(progress.Progress)
}

func newCountingReader(r io.Reader, size int64, show func(progress.Progress)) *countingReader {
	return &countingReader{Reader: r, total: size, meter: progress.NewMeter(time.Now()), show: show}
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.done += int64(n)
	now := time.Now()
	c.meter.Add(c.done, c.total, now)
	c.show(c.meter.Progress(now))
	return n, err
}
