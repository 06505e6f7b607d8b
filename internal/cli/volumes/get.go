// Package volumes has the command 'get volumes'.
package volumes

import (
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/printable"
	"berth/internal/lib/table"
)

// Commands returns the commands of volumes.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{Get: newGetVolumesCommand()}
}

// getVolumes is what the flags of 'get volumes' say.
type getVolumes struct {
	filter client.Filter
	output string
	all    bool
}

func newGetVolumesCommand() *cobra.Command {
	var g getVolumes
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
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if g.all && g.filter.Namespace != "" {
				return cmdutil.UsageError(cmd, "--namespace and --all-namespaces exclude each other")
			}
			if err := cmdutil.CheckNamespace(cmd, g.filter.Namespace); err != nil {
				return err
			}
			if len(args) > 0 {
				if g.filter.Name, err = cmdutil.PodName(args[0]); err != nil {
					return err
				}
			}
			return g.run(cmd)
		},
	}
	cmdutil.AddOutputFlag(cmd, &g.output, printers.ObjectFormats())
	cmd.Flags().BoolVarP(&g.all, "all-namespaces", "A", false, "show all namespaces, each with its name")
	cmdutil.AddNamespaceFlag(cmd, &g.filter.Namespace, "show this namespace only")
	return cmd
}

func (g *getVolumes) run(cmd *cobra.Command) error {
	documents, err := printers.NewObjectPrinter(cmd.OutOrStdout(), g.output, printers.ObjectFormats())
	if err != nil {
		return cmdutil.UsageError(cmd, err.Error())
	}
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Volumes(cmd.Context())
	if err != nil {
		return err
	}
	if g.filter != (client.Filter{}) {
		// Which pods are meant is for the agent to say.
		pods, err := c.Pods(cmd.Context(), g.filter)
		if err != nil {
			return err
		}
		wanted := map[string]bool{}
		for i := range pods.Pods.Items {
			wanted[string(pods.Pods.Items[i].UID)] = true
		}
		list.Items = slices.DeleteFunc(list.Items, func(v api.Volume) bool { return !wanted[v.UID] })
	}
	switch {
	case documents != nil:
		return documents.Print(list)
	case len(list.Items) == 0:
		cmd.PrintErrln("No volumes found.")
		return nil
	}
	return printVolumes(cmd.OutOrStdout(), list.Items, g.output, g.all, time.Now())
}

func printVolumes(w io.Writer, volumes []api.Volume, output string, namespaces bool, now time.Time) error {
	rows := table.New(w)
	namespaces = namespaces || slices.ContainsFunc(volumes, func(v api.Volume) bool { return v.Namespace != volumes[0].Namespace })
	row := func(namespace, path string, cells ...string) {
		if output == "wide" {
			cells = append(cells, path)
		}
		if namespaces {
			cells = slices.Insert(cells, 0, namespace)
		}
		rows.Row(cells...)
	}
	if output != "name" {
		row("NAMESPACE", "PATH", "POD", "VOLUME", "KIND", "SOURCE", "SIZE", "USED", "AGE")
	}
	for _, v := range volumes {
		if output == "name" {
			rows.Row("volume/" + v.Pod + "/" + v.Name)
			continue
		}
		since := "<none>"
		if v.Since != nil {
			since = printers.Age(*v.Since, now)
		}
		row(v.Namespace, printers.OrNone(v.Path), v.Pod, v.Name, v.Kind, printers.OrNone(v.Source), bytesOrNone(v.Capacity), bytesOrNone(v.Used), since)
	}
	return rows.Flush()
}

func bytesOrNone(n *int64) string {
	if n == nil {
		return "<none>"
	}
	return printable.Bytes(*n)
}
