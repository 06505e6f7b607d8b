package cmdutil

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/api/client"
)

const flagServer = "server"

// credentialFlags returns the flags that go with --server.
func credentialFlags() []string {
	return []string{"client-certificate", "client-key", "certificate-authority", "insecure-skip-tls-verify"}
}

// RemoteFlags are the flags of commands that can talk to a node over the network instead of the local agent.
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

// Given reports whether --server is on the command line.
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

// Node returns the node of --server, or the local agent.
func (f *RemoteFlags) Node(cmd *cobra.Command) (client.Node, error) {
	isRemote, err := f.Given(cmd)
	switch {
	case err != nil:
		return nil, err
	case isRemote:
		return asNode(client.NewRemote(f.Remote))
	}
	return asNode(NewClient(cmd))
}

// asNode returns a nil interface for an error, instead of one that holds a nil pointer.
func asNode[N client.Node](n N, err error) (client.Node, error) {
	if err != nil {
		return nil, err
	}
	return n, nil
}

// clusterCommand returns the kubectl command for what a command of berth shows on the machine only, or nothing.
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

// explainLocalOnly explains the error that cmd has no --server, or none of its credentials, because it talks to the
// local agent only. For other errors it returns nothing.
func explainLocalOnly(cmd *cobra.Command, err error) string {
	unknown, ok := err.(*pflag.NotExistError) //nolint:errorlint // pflag hands it over bare
	if !ok || !slices.Contains(append(credentialFlags(), flagServer), unknown.GetSpecifiedName()) {
		return ""
	}
	text := fmt.Sprintf("the node API does not have what '%s' needs: run it on the machine itself, as in 'ssh NODE %[1]s'", cmd.CommandPath())
	if other := clusterCommand(cmd.CommandPath()); other != "" {
		text += fmt.Sprintf(", or ask the cluster with '%s'", other)
	}
	return text
}
