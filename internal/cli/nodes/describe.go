package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
	"berth/internal/lib/table"
)

func newDescribeNodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "node",
		Aliases: []string{"nodes", "no"},
		Short:   "Show all about this machine as a node",
		Long: `Show what this machine has for pods, whether it can run them, and which pods have how much of it.
It needs no cluster.`,
		Example:           `  berth describe node`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := cmdutil.NewClient(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			n, err := c.Machine(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Pods(cmd.Context(), client.Filter{})
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), describeNode(n, list.Pods.Items, time.Now()))
			return err
		},
	}
}

// describeNode returns the text of 'describe node'.
func describeNode(n *v1.Node, pods []v1.Pod, now time.Time) string {
	var b strings.Builder
	head := []printers.Entry{
		printers.NewEntry("Name", n.Name), printers.NewEntry("Roles", nodeRoles(n)),
		printers.NewListEntry("Labels", printers.Pairs(n.Labels, "=")), printers.NewListEntry("Annotations", printers.Pairs(n.Annotations, ": ")),
	}
	if !n.CreationTimestamp.IsZero() {
		head = append(head, printers.NewEntry("Since", printers.LongTime(n.CreationTimestamp.Time)))
	}
	var taints []string
	for _, t := range n.Spec.Taints {
		taints = append(taints, t.ToString())
	}
	head = append(head, printers.NewListEntry("Taints", taints), printers.NewEntry("Unschedulable", fmt.Sprint(n.Spec.Unschedulable)))
	printers.WriteOutline(&b, head)
	writeNodeConditions(&b, n.Status.Conditions, now)
	addresses := printers.Entry{Name: "Addresses"}
	for _, a := range n.Status.Addresses {
		addresses.Children = append(addresses.Children, printers.NewEntry(string(a.Type), a.Address))
	}
	printers.WriteOutline(&b, []printers.Entry{addresses})
	printers.WriteOutline(&b, printers.ResourceEntries("Capacity", n.Status.Capacity))
	printers.WriteOutline(&b, printers.ResourceEntries("Allocatable", n.Status.Allocatable))
	printers.WriteOutline(&b, []printers.Entry{{Name: "System Info", Children: nodeInfo(n.Status.NodeInfo)}})
	writeAllocations(&b, n, pods, now)
	return b.String()
}

func nodeInfo(i v1.NodeSystemInfo) []printers.Entry {
	var out []printers.Entry
	for _, fact := range []struct{ name, text string }{
		{"Machine ID", i.MachineID},
		{"System UUID", i.SystemUUID},
		{"Boot ID", i.BootID},
		{"Kernel Version", i.KernelVersion},
		{"OS Image", i.OSImage},
		{"Operating System", i.OperatingSystem},
		{"Architecture", i.Architecture},
		{"Container Runtime", i.ContainerRuntimeVersion},
		{"Version", i.KubeletVersion},
	} {
		out = append(out, printers.NewEntry(fact.name, printers.OrNone(fact.text)))
	}
	return out
}

func writeNodeConditions(b *strings.Builder, conditions []v1.NodeCondition, now time.Time) {
	if len(conditions) == 0 {
		printers.WriteOutline(b, []printers.Entry{printers.NewEntry("Conditions", "<none>")})
		return
	}
	b.WriteString("Conditions:\n")
	rows := table.New(b)
	rows.Row("  Type", "Status", "Since", "Reason", "Message")
	for _, c := range conditions {
		rows.Row("  "+string(c.Type), string(c.Status), printers.Age(c.LastTransitionTime.Time, now), c.Reason, c.Message)
	}
	_ = rows.Flush() // a strings.Builder returns no errors
}

// allocation is a column of the table of allocated resources: a resource of a pod, requested or as a limit.
type allocation struct {
	head     string
	resource v1.ResourceName
	of       func(*v1.Pod, helper.PodResourcesOptions) v1.ResourceList
}

func allocations() []allocation {
	return []allocation{
		{"CPU Requests", v1.ResourceCPU, helper.PodRequests},
		{"CPU Limits", v1.ResourceCPU, helper.PodLimits},
		{"Memory Requests", v1.ResourceMemory, helper.PodRequests},
		{"Memory Limits", v1.ResourceMemory, helper.PodLimits},
	}
}

// writeAllocations writes a table of the requests and limits of each pod, and their sums.
func writeAllocations(b *strings.Builder, n *v1.Node, pods []v1.Pod, now time.Time) {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p v1.Pod) bool { return pod.HasEnded(&p) })
	slices.SortFunc(pods, func(x, y v1.Pod) int { return strings.Compare(pod.Ref(&x), pod.Ref(&y)) })
	fmt.Fprintf(b, "Pods:  (%d that have not ended)\n", len(pods))
	rows := table.New(b)
	columns := allocations()
	head := []string{"  Namespace", "Name"}
	for _, c := range columns {
		head = append(head, c.head)
	}
	rows.Row(append(head, "Age")...)
	totals := make([]resource.Quantity, len(columns))
	for i := range pods {
		p := &pods[i]
		cells := []string{"  " + p.Namespace, p.Name}
		for k, c := range columns {
			amount := c.of(p, helper.PodResourcesOptions{})[c.resource]
			totals[k].Add(amount)
			cells = append(cells, share(amount, n.Status.Allocatable[c.resource]))
		}
		rows.Row(append(cells, printers.Age(pod.Created(p), now))...)
	}
	cells := []string{"  Total", ""}
	for k, c := range columns {
		cells = append(cells, share(totals[k], n.Status.Allocatable[c.resource]))
	}
	rows.Row(append(cells, "")...)
	_ = rows.Flush() // a strings.Builder returns no errors
}

// share formats an amount, and which percentage of the whole it is.
func share(amount, whole resource.Quantity) string {
	if whole.IsZero() {
		return amount.String()
	}
	return fmt.Sprintf("%s (%d%%)", amount.String(), amount.MilliValue()*100/whole.MilliValue())
}
