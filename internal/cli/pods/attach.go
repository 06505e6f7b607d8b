package pods

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/cli/cmdutil"
	"berth/internal/lib/pod"
)

func newAttachCommand() *cobra.Command {
	var (
		node     targetFlags
		terminal terminalFlags
	)
	cmd := &cobra.Command{
		Use:   "attach POD",
		Short: "Connect to what runs in a container",
		Long: `Show what the main process of a container writes from now on, and with -i also pass on
what is typed. 'berth logs' shows what it wrote before.

Ctrl-c ends the connection, and not the process, unless -t passes it on.`,
		Example: `  berth attach hello
  berth attach shell -it -c debugger`,
		Args:              cmdutil.OnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			return node.withTarget(cmd, args[0], func(t target) error { return attach(cmd, &terminal, t) })
		},
	}
	node.addTo(cmd)
	node.addContainer(cmd)
	terminal.addTo(cmd)
	return cmd
}

func attach(cmd *cobra.Command, terminal *terminalFlags, t target) error {
	// A container has stdin and a terminal if its spec says so, and otherwise can't be given any.
	spec := pod.ContainerSpec(t.pod, t.container)
	if terminal.stdin && !spec.Stdin {
		return cmdutil.UsageError(cmd, "container "+t.container+" reads no stdin (its spec has no 'stdin: true'): leave out -i, or use 'berth exec -it'")
	}
	if terminal.tty && !spec.TTY {
		cmd.PrintErrf("container %s has no terminal (its spec has no 'tty: true'): going on without one\n", t.container)
		terminal.tty = false
	}
	return terminal.connect(cmd, func(s remotecommand.StreamOptions) error {
		s.Tty = spec.TTY // the container was created with it
		return t.node.Attach(cmd.Context(), t.pod, t.container, s)
	})
}
