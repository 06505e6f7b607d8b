// Package volumes has the command 'get volumes'.
package volumes

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/printable"
)

// Commands returns the commands of volumes.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{Get: newGetVolumesCommand()}
}

func newGetVolumesCommand() *cobra.Command {
	var (
		namespace cmdutil.NamespaceFlags
		output    string
	)
	cmd := &cobra.Command{
		Use:     "volumes [POD]",
		Aliases: []string{"volume", "vol"},
		Short:   "Show the volumes of pods",
		Long: `Show the volumes of pods: what each is made from, where it is on this machine, and how much of it is
used where that is known without searching the disk.`,
		Example: `  berth get volumes
  berth get volumes hello -o wide`,
		Args:              cmdutil.AtMostOnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := namespace.Filter(cmd, args)
			if err != nil {
				return err
			}
			o := printers.Options{Output: output, Namespaces: namespace.All}
			return cmdutil.Get(cmd, kind(), o, func(ctx context.Context, c *client.Client) ([]api.Volume, error) {
				list, err := c.Volumes(ctx)
				if err != nil {
					return nil, err
				}
				selected, err := cmdutil.SelectPods(ctx, c, filter)
				if err != nil {
					return nil, err
				}
				return slices.DeleteFunc(list.Items, func(v api.Volume) bool { return !selected(v.UID) }), nil
			})
		},
	}
	cmdutil.AddOutputFlag(cmd, &output)
	namespace.AddTo(cmd)
	return cmd
}

// kind says how volumes are printed.
func kind() printers.Kind[api.Volume] {
	return printers.Kind[api.Volume]{
		Plural: "volumes",
		Columns: []printers.Column{
			{Head: "POD"},
			{Head: "VOLUME"},
			{Head: "KIND"},
			{Head: "SOURCE"},
			{Head: "SIZE"},
			{Head: "USED"},
			{Head: "AGE"},
			{Head: "PATH", In: printers.Wide},
		},
		Rows: func(v *api.Volume, now time.Time) [][]string {
			since := "<none>"
			if v.Since != nil {
				since = printers.Age(*v.Since, now)
			}
			return [][]string{{
				v.Pod, v.Name, v.Kind, printers.OrNone(v.Source), bytesOrNone(v.Capacity), bytesOrNone(v.Used), since, printers.OrNone(v.Path),
			}}
		},
		Names:     func(v *api.Volume) []string { return []string{"volume/" + v.Pod + "/" + v.Name} },
		Namespace: func(v *api.Volume) string { return v.Namespace },
		Document:  func(v *api.Volume) any { return v },
		List:      func(volumes []api.Volume) any { return api.VolumeList{Items: volumes} },
	}
}

func bytesOrNone(n *int64) string {
	if n == nil {
		return "<none>"
	}
	return printable.Bytes(*n)
}
