package images

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/printable"
	"berth/internal/lib/table"
)

func newGCCommand() *cobra.Command {
	var dryRun, all bool
	var output string
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove images that are not in use",
		Long: `Gc does at once what the agent does every few minutes: if the disk of the images is fuller than
imageGCHighThresholdPercent, it removes images until it is down to imageGCLowThresholdPercent; and it removes
those that were not used for longer than imageMaximumGCAge. The image that was not used for longest goes first. An image
of a pod never goes, nor a pinned one, nor one whose archive is in the folder of images.

With --all, all images go that can be spared. With --dry-run, it only says what would go, and why.`,
		Example: `  berth gc --dry-run
  berth gc --all`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := cmdutil.DocumentPrinter(cmd, output)
			if err != nil {
				return err
			}
			return cmdutil.WithClient(cmd, func(ctx context.Context, c *client.Client) error {
				report, err := c.CollectImages(ctx, dryRun, all)
				switch {
				case err != nil:
					return err
				case documents != nil:
					return documents.Print(report)
				}
				return printGC(cmd.OutOrStdout(), report)
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing, and say what would go")
	cmd.Flags().BoolVar(&all, "all", false, "remove all that can be spared, however much room there is")
	cmdutil.AddDocumentFlag(cmd, &output)
	return cmd
}

// printGC prints whether each image goes, and how much that frees.
func printGC(w io.Writer, r *api.GCReport) error {
	rows := table.New(w)
	rows.Row("IMAGE", "SIZE", "GOES", "WHY")
	for _, i := range r.Items {
		rows.Row(i.Name, printable.Bytes(i.Size), printers.Bool(i.Remove), i.Message)
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	did := "freed"
	if r.DryRun {
		did = "would free"
	}
	used := int64(0)
	if r.Capacity > 0 {
		used = 100 - r.Available*100/r.Capacity
	}
	_, err := fmt.Fprintf(w, "\nThe disk of the images was %d%% full (%s of %s are free). Gc %s %s.\n",
		used, printable.Bytes(r.Available), printable.Bytes(r.Capacity), did, printable.Bytes(r.Freed))
	if err == nil && r.Missing > 0 {
		_, err = fmt.Fprintf(w, "To come down to %d%%, %s more would have to go, and nothing can be spared.\n", r.Low, printable.Bytes(r.Missing))
	}
	return err
}
