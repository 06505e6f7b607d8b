// Package cli is the command line of berth: 'berth run' is the agent, the other commands ask it over
// its local socket, or another node over its HTTPS port.
//
// Commands import the composition of the agent (app), its configuration and its APIs, and none of the agent's parts.
package cli

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"berth/internal/lib/logging"
)

// Run runs the command that args name, the first of which is the name of the program, and returns its
// exit code. Started as kubelet, the command is 'run'.
func Run(ctx context.Context, version string, args []string, stderr io.Writer) int {
	klog.SetSlogLogger(slog.New(complaints{stderr})) // 'berth run' has a better one
	root := newRootCommand(version)
	command := args[1:]
	if filepath.Base(args[0]) == "kubelet" {
		command = append([]string{"run"}, command...)
	}
	output := logging.NewOutput(stderr) // it may not be read, and the agent has to end all the same
	defer output.Flush(logging.FlushTimeout)
	return execute(ctx, root, output, command...)
}

// newRootCommand returns the command 'berth', with all others below it.
func newRootCommand(version string) *cobra.Command {
	return newRoot(version,
		agentCommands(), podCommands(), nodeCommands(), eventCommands(), imageCommands(), volumeCommands(), manifestCommands(),
		commands{Other: []*cobra.Command{newVersionCommand(version)}})
}
