package nodes

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/table"
)

func newTopNodeCommand() *cobra.Command {
	var flags cmdutil.RemoteFlags
	cmd := &cobra.Command{
		Use:     "node",
		Aliases: []string{"nodes", "no"},
		Short:   "Show what is used of this machine",
		Long: `Show how much is used of this machine by all that runs on it, and how much that is of what pods may have,
which the node API does not have.`,
		Example:           `  berth top node`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := flags.Node(cmd)
			if err != nil {
				return err
			}
			defer n.Close()
			summary, err := n.Summary(cmd.Context())
			if err != nil {
				return err
			}
			var allocatable v1.ResourceList
			if local, ok := n.(*client.Client); ok {
				machine, err := local.Machine(cmd.Context())
				if err != nil {
					return err
				}
				allocatable = machine.Status.Allocatable
			}
			return printNodeUsage(cmd.OutOrStdout(), summary.Node, allocatable)
		},
	}
	flags.AddTo(cmd)
	return cmd
}

func printNodeUsage(w io.Writer, n stats.NodeStats, allocatable v1.ResourceList) error {
	var usedCPU, usedMemory *uint64
	if n.CPU != nil {
		usedCPU = n.CPU.UsageNanoCores
	}
	if n.Memory != nil {
		usedMemory = n.Memory.WorkingSetBytes
	}
	cpu, memory := allocatable[v1.ResourceCPU], allocatable[v1.ResourceMemory]
	rows := table.New(w)
	rows.Row("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)")
	rows.Row(strings.TrimSpace(n.NodeName), printers.Cores(usedCPU), percent(usedCPU, float64(cpu.MilliValue())*1e6), printers.Mebibytes(usedMemory), percent(usedMemory, float64(memory.Value())))
	return rows.Flush()
}

func percent(part *uint64, whole float64) string {
	if part == nil || whole <= 0 {
		return "<unknown>"
	}
	return fmt.Sprintf("%d%%", int64(float64(*part)*100/whole))
}
