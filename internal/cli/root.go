package cli

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"berth/internal/cli/agent"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/events"
	"berth/internal/cli/images"
	"berth/internal/cli/manifests"
	"berth/internal/cli/nodes"
	"berth/internal/cli/pods"
	"berth/internal/cli/volumes"
	"berth/internal/lib/logging"
)

// Run runs the command that args name, the first of which is the name of the program, and returns its
// exit code. Started as kubelet, the command is 'kubelet'.
func Run(ctx context.Context, version string, args []string, stderr io.Writer) int {
	klog.SetSlogLogger(slog.New(klogHandler{stderr})) // 'berth run' sets another
	root := NewRootCommand(version)
	command := args[1:]
	if filepath.Base(args[0]) == agent.KubeletName {
		command = append([]string{agent.KubeletName}, command...)
	}
	output := logging.NewOutput(stderr) // it never blocks: the agent has to end also if its stderr is not read
	defer output.Flush(logging.FlushTimeout)
	return cmdutil.Execute(ctx, root, output, command...)
}

// NewRootCommand returns the command 'berth', with all others below it.
func NewRootCommand(version string) *cobra.Command {
	return cmdutil.NewRoot(version,
		agent.Commands(), pods.Commands(), nodes.Commands(), events.Commands(), images.Commands(), volumes.Commands(), manifests.Commands(),
		cmdutil.Commands{Other: []*cobra.Command{newVersionCommand(version)}})
}
