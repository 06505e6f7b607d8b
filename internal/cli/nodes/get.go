// Package nodes has the commands of this machine as a node: get, describe, top and doctor.
package nodes

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/table"
)

// Commands returns the commands of this node.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{
		Get: newGetNodeCommand(), Describe: newDescribeNodeCommand(), Top: newTopNodeCommand(),
		Other: []*cobra.Command{newDoctorCommand()},
	}
}

func newGetNodeCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "node",
		Aliases: []string{"nodes", "no"},
		Short:   "Show this machine as a node",
		Long: `Show this machine as a node: what it has for pods, and whether it can run them. It needs no
cluster; in one, it is the Node that all see there.`,
		Example: `  berth get node
  berth get node -o wide
  berth get node -o jsonpath='{.status.allocatable.memory}'`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := printers.NewObjectPrinter(cmd.OutOrStdout(), output, printers.ObjectFormats())
			if err != nil {
				return cmdutil.UsageError(cmd, err.Error())
			}
			c, err := cmdutil.NewClient(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			n, err := c.Machine(cmd.Context())
			switch {
			case err != nil:
				return err
			case documents != nil:
				return documents.Print(n)
			case output == "name":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "node/"+n.Name)
				return err
			}
			return printNode(cmd.OutOrStdout(), n, output == "wide", time.Now(), cmdutil.StatusPainter(cmd))
		},
	}
	cmdutil.AddOutputFlag(cmd, &output, printers.ObjectFormats())
	return cmd
}

func printNode(w io.Writer, n *v1.Node, wide bool, now time.Time, paint table.Painter) error {
	head := []string{"NAME", "STATUS", "ROLES", "AGE", "VERSION"}
	cells := []string{n.Name, nodeStatus(n), nodeRoles(n), printers.Age(n.CreationTimestamp.Time, now), n.Status.NodeInfo.KubeletVersion}
	if wide {
		info := n.Status.NodeInfo
		head = append(head, "INTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME")
		cells = append(cells, printers.OrNone(nodeAddress(n, v1.NodeInternalIP)), printers.OrNone(info.OSImage), printers.OrNone(info.KernelVersion), printers.OrNone(info.ContainerRuntimeVersion))
	}
	rows := table.Painted(w, paint)
	rows.Row(head...)
	rows.Row(cells...)
	return rows.Flush()
}

// nodeStatus is the state of a node in kubectl's words.
func nodeStatus(n *v1.Node) string {
	status := "Unknown"
	if ready := nodeCondition(n, v1.NodeReady); ready != nil {
		switch ready.Status {
		case v1.ConditionTrue:
			status = "Ready"
		case v1.ConditionFalse:
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeCondition(n *v1.Node, kind v1.NodeConditionType) *v1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// nodeRoles are what the labels of a cluster say that a node is for.
func nodeRoles(n *v1.Node) string {
	var roles []string
	for key := range n.Labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return printers.OrNone(strings.Join(roles, ","))
}

func nodeAddress(n *v1.Node, kind v1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return ""
}
