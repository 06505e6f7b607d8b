package images

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/api/inventory"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/printable"
	"berth/internal/lib/table"
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
			documents, err := printers.NewObjectPrinter(cmd.OutOrStdout(), output, printers.ObjectFormats())
			if err != nil {
				return cmdutil.UsageError(cmd, err.Error())
			}
			c, err := cmdutil.NewClient(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.Images(cmd.Context())
			switch {
			case err != nil:
				return err
			case documents != nil:
				return documents.Print(list)
			case len(list.Items) == 0:
				cmd.PrintErrln("No images found.")
				return nil
			}
			return printImages(cmd.OutOrStdout(), list.Items, output)
		},
	}
	cmdutil.AddOutputFlag(cmd, &output, printers.ObjectFormats())
	return cmd
}

// printImages prints a row for each name of an image.
func printImages(w io.Writer, images []api.Image, output string) error {
	rows := table.New(w)
	switch output {
	case "name":
	case "wide":
		rows.Row("NAME", "TAG", "IMAGE ID", "SIZE", "PINNED", "PODS", "USED BY")
	default:
		rows.Row("NAME", "TAG", "IMAGE ID", "SIZE", "PINNED", "PODS")
	}
	for _, i := range images {
		names := i.Tags
		if len(names) == 0 {
			names = []string{inventory.Name(i)}
		}
		for _, full := range names {
			name, tag := splitImage(full)
			cells := []string{printers.OrNone(name), printers.OrNone(tag), shortID(i.ID), printable.Bytes(i.Size), printers.YesNo(i.Pinned), fmt.Sprint(len(i.Pods))}
			switch output {
			case "name":
				cells = []string{full}
			case "wide":
				cells[2] = i.ID
				cells = append(cells, printers.OrNone(strings.Join(i.Pods, ",")))
			}
			rows.Row(cells...)
		}
	}
	return rows.Flush()
}

// splitImage takes the tag off the name of an image. A colon before a slash is
// that of a port.
func splitImage(full string) (name, tag string) {
	if name, _, found := strings.Cut(full, "@"); found {
		return name, ""
	}
	if at := strings.LastIndex(full, ":"); at > strings.LastIndex(full, "/") {
		return full[:at], full[at+1:]
	}
	return full, ""
}

const shownID = 12 // as much of an ID as people read

func shortID(id string) string {
	_, hash, found := strings.Cut(id, ":")
	if !found {
		hash = id
	}
	return hash[:min(len(hash), shownID)]
}
