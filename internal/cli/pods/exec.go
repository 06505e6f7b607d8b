package pods

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/cli/cmdutil"
)

func newExecCommand() *cobra.Command {
	var (
		node     targetFlags
		terminal terminalFlags
	)
	cmd := &cobra.Command{
		Use:   "exec POD -- COMMAND [ARG...]",
		Short: "Run a command in a container",
		Long: `Run a command in a container of a pod. Its exit code is that of berth.

POD is the full name of a pod, or its name in the manifest, without the name of the node.
Of a pod with several containers, the first one is taken unless -c names another.`,
		Example: `  berth exec hello -- ls /
  berth exec hello -it -- sh
  berth exec hello -i -c sidecar -- sh -c 'cat > /tmp/file' < file`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || cmd.ArgsLenAtDash() == 0:
				return cmdutil.UsageError(cmd, "give the name of one pod")
			case len(args) == 1:
				return cmdutil.UsageError(cmd, "give a command after --, as in 'berth exec "+args[0]+" -- ls'")
			case cmd.ArgsLenAtDash() != 1:
				return cmdutil.UsageError(cmd, "put -- between the pod and the command, as in 'berth exec "+args[0]+" -- ls'")
			}
			return nil
		},
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			return node.withTarget(cmd, args[0], func(t target) error {
				return terminal.connect(cmd, func(s remotecommand.StreamOptions) error {
					return t.node.Exec(cmd.Context(), t.pod, t.container, args[1:], s)
				})
			})
		},
	}
	node.addTo(cmd)
	node.addContainer(cmd)
	terminal.addTo(cmd)
	return cmd
}
