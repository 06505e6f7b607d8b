// Package nodes has the commands of this machine as a node: get, describe, top and doctor.
package nodes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
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
			return cmdutil.Get(cmd, kind(), printers.Options{Output: output, Each: true}, func(ctx context.Context, c *client.Client) ([]v1.Node, error) {
				n, err := c.Machine(ctx)
				if err != nil {
					return nil, err
				}
				return []v1.Node{*n}, nil
			})
		},
	}
	cmdutil.AddOutputFlag(cmd, &output)
	return cmd
}

// kind says how a Node is printed.
func kind() printers.Kind[v1.Node] {
	return printers.Kind[v1.Node]{
		Plural: "nodes",
		Columns: []printers.Column{
			{Head: "NAME"},
			{Head: "STATUS"},
			{Head: "ROLES"},
			{Head: "AGE"},
			{Head: "VERSION"},
			{Head: "INTERNAL-IP", In: printers.Wide},
			{Head: "OS-IMAGE", In: printers.Wide},
			{Head: "KERNEL-VERSION", In: printers.Wide},
			{Head: "CONTAINER-RUNTIME", In: printers.Wide},
		},
		Rows: func(n *v1.Node, now time.Time) [][]string {
			info := n.Status.NodeInfo
			return [][]string{{
				n.Name, nodeStatus(n), nodeRoles(n), printers.Age(n.CreationTimestamp.Time, now), info.KubeletVersion,
				printers.OrNone(nodeAddress(n, v1.NodeInternalIP)), printers.OrNone(info.OSImage),
				printers.OrNone(info.KernelVersion), printers.OrNone(info.ContainerRuntimeVersion),
			}}
		},
		Names:    func(n *v1.Node) []string { return []string{"node/" + n.Name} },
		Document: func(n *v1.Node) any { return n },
	}
}

// nodeStatus returns the status of a node as kubectl shows it.
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

// nodeRoles returns the roles that labels node-role.kubernetes.io/ROLE give a node.
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
