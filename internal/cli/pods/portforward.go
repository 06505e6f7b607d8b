package pods

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
)

func newPortForwardCommand() *cobra.Command {
	var (
		node      targetFlags
		addresses []string
	)
	cmd := &cobra.Command{
		Use:   "port-forward POD [LOCAL:]REMOTE...",
		Short: "Reach ports of a pod through ports of this machine",
		Long: `Listen on ports of this machine, and pass connections on to ports of a pod, until ctrl-c, or
until the pod is restarted or goes away.

A port alone is the same on both sides. With nothing before the colon, any free port is taken.`,
		Example: `  berth port-forward hello 8080:80
  berth port-forward hello :80 9090
  berth port-forward hello 80 --address 0.0.0.0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cmdutil.UsageError(cmd, "give the name of one pod, and a port or more")
			}
			for _, p := range args[1:] {
				if err := checkPorts(p); err != nil {
					return cmdutil.UsageError(cmd, err.Error())
				}
			}
			return nil
		},
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, a := range addresses {
				if a != "localhost" && net.ParseIP(a) == nil {
					return cmdutil.UsageError(cmd, fmt.Sprintf("--address is %q: give IP addresses of this machine, or localhost", a))
				}
			}
			n, closeNode, err := node.open(cmd)
			if err != nil {
				return err
			}
			defer closeNode()
			p, err := node.pod(cmd, n, args[0])
			if err != nil {
				return err
			}
			err = n.Forward(cmd.Context(), p, client.Forward{
				Addresses: addresses, Ports: args[1:], Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(),
			})
			if cmd.Context().Err() != nil {
				return nil // interrupted by the user
			}
			return err
		},
	}
	node.addTo(cmd)
	cmd.Flags().StringSliceVar(&addresses, "address", []string{"localhost"}, "addresses of this machine to listen on")
	_ = cmd.RegisterFlagCompletionFunc("address", cobra.NoFileCompletions)
	return cmd
}

// checkPorts returns an error if text is not [LOCAL:]REMOTE.
func checkPorts(text string) error {
	local, remote, both := strings.Cut(text, ":")
	if !both {
		remote = local
	}
	if both && (local == "" || local == "0") {
		local = remote // any free port
	}
	for _, port := range []string{local, remote} {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q is not a port: write [LOCAL:]REMOTE, as in 8080:80, 80 or :80", text)
		}
	}
	return nil
}
