package cmdutil

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/api/client"
)

// Commands talk to the agent of this machine, and some of them to any node on the
// network as well.

const flagServer = "server"

// credentialFlags are for --server alone.
func credentialFlags() []string {
	return []string{"client-certificate", "client-key", "certificate-authority", "insecure-skip-tls-verify"}
}

// RemoteFlags say which node on the network is meant.
type RemoteFlags struct{ Remote client.Remote }

func (f *RemoteFlags) AddTo(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.Remote.Server, flagServer, "", "talk to the node at this URL, such as https://node-1:10250, instead of the local agent")
	s.StringVar(&f.Remote.CertFile, "client-certificate", "", "file with your certificate for --server")
	s.StringVar(&f.Remote.KeyFile, "client-key", "", "file with the key of your certificate")
	s.StringVar(&f.Remote.CAFile, "certificate-authority", "", "file with the certificate of who signed that of --server")
	s.BoolVar(&f.Remote.Insecure, "insecure-skip-tls-verify", false, "believe that --server is the node, whatever its certificate says")
	_ = cmd.RegisterFlagCompletionFunc(flagServer, cobra.NoFileCompletions)
}

// Given tells whether a node on the network is meant.
func (f *RemoteFlags) Given(cmd *cobra.Command) (bool, error) {
	if cmd.Flags().Changed(flagServer) {
		return true, nil
	}
	for _, flag := range credentialFlags() {
		if cmd.Flags().Changed(flag) {
			return false, UsageError(cmd, "--"+flag+" is for --server, which is not given")
		}
	}
	return false, nil
}

// Node returns the node that the command line means.
func (f *RemoteFlags) Node(cmd *cobra.Command) (client.Node, error) {
	far, err := f.Given(cmd)
	switch {
	case err != nil:
		return nil, err
	case far:
		return asNode(client.NewRemote(f.Remote))
	}
	return asNode(NewClient(cmd))
}

// asNode keeps a nil pointer from becoming a node.
func asNode[N client.Node](n N, err error) (client.Node, error) {
	if err != nil {
		return nil, err
	}
	return n, nil
}

// clusterCommand is what to ask the cluster of a node that does not tell over the network
// what a command wants to know; empty if there is no such thing.
func clusterCommand(command string) string {
	switch command {
	case "berth get events":
		return "kubectl get events -A"
	case "berth get node":
		return "kubectl get node NODE"
	case "berth get images":
		return "kubectl get node NODE -o jsonpath='{.status.images}'"
	case "berth get volumes":
		return "kubectl describe pod POD"
	case "berth describe node":
		return "kubectl describe node NODE"
	case "berth drain":
		return "kubectl drain NODE"
	case "berth debug":
		return "kubectl debug POD --image IMAGE"
	}
	return ""
}

// explainLocalOnly says what to do about a flag that cmd does not have because it talks to
// the agent of this machine alone; empty if that is not what is wrong.
func explainLocalOnly(cmd *cobra.Command, err error) string {
	unknown, ok := err.(*pflag.NotExistError) //nolint:errorlint // pflag hands it over bare
	if !ok || !slices.Contains(append(credentialFlags(), flagServer), unknown.GetSpecifiedName()) {
		return ""
	}
	text := fmt.Sprintf("a node does not tell over the network what '%s' needs: run it on the machine itself, as in 'ssh NODE %[1]s'", cmd.CommandPath())
	if other := clusterCommand(cmd.CommandPath()); other != "" {
		text += fmt.Sprintf(", or ask the cluster with '%s'", other)
	}
	return text
}
