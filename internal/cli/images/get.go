package images

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/api/inventory"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/printable"
)

func newGetImagesCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "images",
		Aliases: []string{"image"},
		Short:   "Show the images of this machine",
		Long: `Show the images that the container runtime has, and how many pods use each. A pinned image is
never removed to make room.`,
		Example: `  berth get images
  berth get images -o wide`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmdutil.Get(cmd, kind(), printers.Options{Output: output}, func(ctx context.Context, c *client.Client) ([]api.Image, error) {
				list, err := c.Images(ctx)
				if err != nil {
					return nil, err
				}
				return list.Items, nil
			})
		},
	}
	cmdutil.AddOutputFlag(cmd, &output)
	return cmd
}

// kind says how images are printed: in a table, each of their names has a row.
func kind() printers.Kind[api.Image] {
	return printers.Kind[api.Image]{
		Plural: "images",
		Columns: []printers.Column{
			{Head: "NAME"},
			{Head: "TAG"},
			{Head: "IMAGE ID", In: printers.Narrow},
			{Head: "IMAGE ID", In: printers.Wide},
			{Head: "SIZE"},
			{Head: "PINNED"},
			{Head: "PODS"},
			{Head: "USED BY", In: printers.Wide},
		},
		Rows: func(i *api.Image, _ time.Time) [][]string {
			var rows [][]string
			for _, full := range names(i) {
				name, tag := splitImage(full)
				rows = append(rows, []string{
					printers.OrNone(name), printers.OrNone(tag), shortID(i.ID), i.ID,
					printable.Bytes(i.Size), printers.Bool(i.Pinned), fmt.Sprint(len(i.Pods)), printers.OrNone(strings.Join(i.Pods, ",")),
				})
			}
			return rows
		},
		Names:    names,
		Document: func(i *api.Image) any { return i },
		List:     func(images []api.Image) any { return api.ImageList{Items: images} },
	}
}

// names returns the tags of an image, or for an image without any the name that inventory gives it.
func names(i *api.Image) []string {
	if len(i.Tags) == 0 {
		return []string{inventory.Name(*i)}
	}
	return i.Tags
}

// splitImage splits the name of an image into repository and tag. A colon before a slash belongs to a port.
func splitImage(full string) (name, tag string) {
	if name, _, found := strings.Cut(full, "@"); found {
		return name, ""
	}
	if at := strings.LastIndex(full, ":"); at > strings.LastIndex(full, "/") {
		return full[:at], full[at+1:]
	}
	return full, ""
}

const shortIDLength = 12 // as docker shows IDs

func shortID(id string) string {
	_, hash, found := strings.Cut(id, ":")
	if !found {
		hash = id
	}
	return hash[:min(len(hash), shortIDLength)]
}
