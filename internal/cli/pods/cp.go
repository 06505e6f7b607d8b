package pods

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/internal/cli/cmdutil"
)

func newCopyCommand() *cobra.Command {
	var node targetFlags
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files and folders to and from a container",
		Long: `Copy a file or a folder into a container, or out of it. One of SOURCE and DESTINATION is
POD:PATH or NAMESPACE/POD:PATH, and the other one a path of this machine.

As with 'cp -r', what is copied goes into DESTINATION if that is a folder, and becomes it if not.
The container needs 'tar'. Permissions are kept, owners are not. Of links, only those are taken
out of a container that stay within what is copied.`,
		Example: `  berth cp hello:/etc/app.conf .
  berth cp ./site hello:/srv -c web
  berth cp data/db:/var/lib/db ./backup`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cmdutil.UsageError(cmd, "give what to copy, and where to")
			}
			return nil
		},
		ValidArgsFunction: completeCopy,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := parseLocation(args[0]), parseLocation(args[1])
			switch {
			case from.pod == "" && to.pod == "":
				return cmdutil.UsageError(cmd, "neither is in a pod: write POD:PATH for the one that is")
			case from.pod != "" && to.pod != "":
				return cmdutil.UsageError(cmd, "both are in pods: copy to this machine first")
			}
			remote, out := to, false
			if from.pod != "" {
				remote, out = from, true
			}
			if remote.path == "" {
				return cmdutil.UsageError(cmd, fmt.Sprintf("%q has no path: write POD:PATH", remote.pod+":"))
			}
			if remote.namespace != "" {
				if node.namespace != "" && node.namespace != remote.namespace {
					return cmdutil.UsageError(cmd, "--namespace and the namespace before the pod differ")
				}
				node.namespace = remote.namespace
			}
			return node.withTarget(cmd, remote.pod, func(t target) error {
				if out {
					return t.node.CopyFrom(cmd.Context(), t.pod, t.container, from.path, to.path, func(text string) { cmd.PrintErrln(text) })
				}
				return t.node.CopyTo(cmd.Context(), t.pod, t.container, from.path, to.path)
			})
		},
	}
	node.addTo(cmd)
	node.addContainer(cmd)
	return cmd
}

// location is a path in a pod, or on this machine if pod is empty.
type location struct{ namespace, pod, path string }

// parseLocation parses [[NAMESPACE/]POD:]PATH. A text that begins with a slash or a dot is a path of this machine,
// also with a colon.
func parseLocation(text string) location {
	before, path, found := strings.Cut(text, ":")
	if !found || before == "" || strings.HasPrefix(before, "/") || strings.HasPrefix(before, ".") {
		return location{path: text}
	}
	if kind, rest, ok := strings.Cut(before, "/"); ok && kind != "pod" && kind != "pods" && kind != "po" {
		return location{namespace: kind, pod: rest, path: path}
	}
	return location{pod: before, path: path}
}

// completeCopy completes pods, and leaves files to the shell.
func completeCopy(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := cmdutil.CompletePods(cmd, nil, prefix)
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoSpace
}
