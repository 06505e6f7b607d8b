package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/events"
	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
	"berth/internal/lib/table"
)

func newDescribePodCommand() *cobra.Command {
	var (
		namespace string
		flags     cmdutil.RemoteFlags
	)
	cmd := &cobra.Command{
		Use:     "pod POD",
		Aliases: []string{"pods", "po"},
		Short:   "Show all about a pod, and what happened to it",
		Long: `Show what a pod is to be, what became of it, and what happened to it on the way.

POD is the full name of a pod, or its name in the manifest, without the name of the node.`,
		Example: `  berth describe pod hello
  berth describe pod hello-box -n web`,
		Args:              cmdutil.OnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := cmdutil.PodFilter(cmd, namespace, args)
			if err != nil {
				return err
			}
			n, err := flags.Node(cmd)
			if err != nil {
				return err
			}
			defer n.Close()
			return describePods(cmd, n, filter)
		},
	}
	flags.AddTo(cmd)
	cmdutil.AddNamespaceFlag(cmd, &namespace, "namespace of the pod; not needed if only one has that name")
	return cmd
}

// describePods describes the pods that f chooses. A name may stand for several: in several namespaces, or while a pod
// is replaced.
func describePods(cmd *cobra.Command, n client.Node, f client.Filter) error {
	list, err := n.Pods(cmd.Context(), f)
	if err != nil {
		return err
	}
	for i := range list.Pods.Items {
		text, err := describeOne(cmd.Context(), n, &list.Pods.Items[i], list.Refused)
		if err != nil {
			return err
		}
		if i > 0 {
			text = "\n\n" + text
		}
		if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	return nil
}

func describeOne(ctx context.Context, n client.Node, p *v1.Pod, refused []pod.Refusal) (string, error) {
	c, local := n.(*client.Client)
	if !local {
		return describe(p, nil, details{remote: true}, time.Now()), nil
	}
	recorded, err := c.Events(ctx, client.EventFilter{Namespace: p.Namespace, Pod: p.Name, UID: p.UID})
	if err != nil {
		return "", err
	}
	more := details{refused: refusalsOf(p, refused)}
	// Probes and volumes are left out if the agent does not serve them, or the pod is gone.
	if found, err := c.Probes(ctx, p.Namespace, p.Name); err == nil {
		more.probes = found.Items
	}
	if found, err := c.Volumes(ctx); err == nil {
		more.volumes = slices.DeleteFunc(found.Items, func(v api.Volume) bool { return v.UID != string(p.UID) })
	}
	return describe(p, recorded.Items, more, time.Now()), nil
}

// describe returns the text of 'describe pod'.
func describe(p *v1.Pod, recorded []v1.Event, more details, now time.Time) string {
	var b strings.Builder
	printers.WriteOutline(&b, describeIdentity(p, now))
	printers.WriteOutline(&b, describeRefusals(more.refused))
	printers.WriteOutline(&b, describeContainers(p))
	if !more.remote {
		writeProbes(&b, p, more.probes, now)
	}
	writeConditions(&b, p.Status.Conditions)
	if !more.remote {
		printers.WriteOutline(&b, describeVolumes(more.volumes))
	}
	printers.WriteOutline(&b, []printers.Entry{printers.NewEntry("QoS Class", printers.OrNone(string(p.Status.QOSClass)))})
	if more.remote {
		hint := fmt.Sprintf("<not in the node API: see 'kubectl describe pod %s -n %s', or 'berth describe pod' on the machine>", p.Name, p.Namespace)
		printers.WriteOutline(&b, []printers.Entry{printers.NewEntry("Events", hint)})
		return b.String()
	}
	events.WriteDescription(&b, recorded, now)
	return b.String()
}

// describeIdentity returns the entries before the containers: names, node, labels, status and addresses.
func describeIdentity(p *v1.Pod, now time.Time) []printers.Entry {
	node := printers.OrNone(p.Spec.NodeName)
	if p.Status.HostIP != "" {
		node += "/" + p.Status.HostIP
	}
	var priority int32
	if p.Spec.Priority != nil {
		priority = *p.Spec.Priority
	}
	out := []printers.Entry{printers.NewEntry("Name", p.Name), printers.NewEntry("Namespace", p.Namespace), printers.NewEntry("Priority", fmt.Sprint(priority))}
	if p.Spec.PriorityClassName != "" {
		out = append(out, printers.NewEntry("Priority Class", p.Spec.PriorityClassName))
	}
	out = append(out, printers.NewEntry("Node", node))
	if p.Status.StartTime != nil {
		out = append(out, printers.NewEntry("Start Time", printers.LongTime(p.Status.StartTime.Time)))
	}
	out = append(out, printers.NewListEntry("Labels", printers.Pairs(p.Labels, "=")), printers.NewListEntry("Annotations", printers.Pairs(p.Annotations, ": ")))
	out = append(out, describeStatus(p, now)...)
	out = append(out, printers.NewEntry("IP", printers.OrNone(p.Status.PodIP)))
	if len(p.Status.PodIPs) > 0 {
		ips := printers.Entry{Name: "IPs"}
		for _, ip := range p.Status.PodIPs {
			ips.Children = append(ips.Children, printers.NewEntry("IP", ip.IP))
		}
		out = append(out, ips)
	}
	return out
}

func describeStatus(p *v1.Pod, now time.Time) []printers.Entry {
	out := []printers.Entry{printers.NewEntry("Status", printers.OrNone(string(p.Status.Phase)))}
	over := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	if p.DeletionTimestamp != nil && !over {
		out[0] = printers.NewEntry("Status", fmt.Sprintf("Terminating (for %s)", printers.Age(p.DeletionTimestamp.Time, now)))
		if p.DeletionGracePeriodSeconds != nil {
			out = append(out, printers.NewEntry("Grace Period", fmt.Sprintf("%ds", *p.DeletionGracePeriodSeconds)))
		}
	}
	if p.Status.Reason != "" {
		out = append(out, printers.NewEntry("Reason", p.Status.Reason))
	}
	if p.Status.Message != "" {
		out = append(out, printers.NewEntry("Message", p.Status.Message))
	}
	return out
}

// writeConditions writes a table of conditions, with columns for reason and message if any has one.
func writeConditions(b *strings.Builder, conditions []v1.PodCondition) {
	if len(conditions) == 0 {
		printers.WriteOutline(b, []printers.Entry{printers.NewEntry("Conditions", "<none>")})
		return
	}
	why := slices.ContainsFunc(conditions, func(c v1.PodCondition) bool { return c.Reason != "" || c.Message != "" })
	rows := table.New(b)
	row := func(cells ...string) {
		cells[0] = "  " + cells[0]
		if !why {
			cells = cells[:2]
		}
		rows.Row(cells...)
	}
	b.WriteString("Conditions:\n")
	row("Type", "Status", "Reason", "Message")
	for _, c := range conditions {
		row(string(c.Type), string(c.Status), c.Reason, c.Message)
	}
	_ = rows.Flush() // a strings.Builder returns no errors
}
