package pods

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/table"
)

// topFlags are the flags of 'top pods'.
type topFlags struct {
	remote     cmdutil.RemoteFlags
	namespace  cmdutil.NamespaceFlags
	sortBy     string
	containers bool
}

func newTopPodsCommand() *cobra.Command {
	var t topFlags
	cmd := &cobra.Command{
		Use:     "pods [NAME]",
		Aliases: []string{"pod", "po"},
		Short:   "Show what pods use of the machine",
		Long: `Show how much of the processors and of the memory pods use now. CPU is in thousandths of a
processor, and memory is what the kernel can't take back.`,
		Example: `  berth top pods
  berth top pods --sort-by memory
  berth top pods hello --containers`,
		Args:              cmdutil.AtMostOnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.sortBy != "" && t.sortBy != "cpu" && t.sortBy != "memory" {
				return cmdutil.UsageError(cmd, fmt.Sprintf("--sort-by is %q: it can be cpu or memory", t.sortBy))
			}
			filter, err := t.namespace.Filter(cmd, args)
			if err != nil {
				return err
			}
			return t.run(cmd, filter)
		},
	}
	t.remote.AddTo(cmd)
	t.namespace.AddTo(cmd)
	f := cmd.Flags()
	f.StringVar(&t.sortBy, "sort-by", "", "cpu or memory, the largest first (default: by name)")
	f.BoolVar(&t.containers, "containers", false, "show each container")
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cmdutil.CompleteWords("cpu", "memory"))
	return cmd
}

func (t *topFlags) run(cmd *cobra.Command, f client.Filter) error {
	n, err := t.remote.Node(cmd)
	if err != nil {
		return err
	}
	defer n.Close()
	summary, err := n.Summary(cmd.Context())
	if err != nil {
		return err
	}
	selected, err := cmdutil.SelectPods(cmd.Context(), n, f)
	if err != nil {
		return err
	}
	pods := slices.DeleteFunc(summary.Pods, func(p stats.PodStats) bool { return !selected(p.PodRef.UID) })
	if len(pods) == 0 {
		cmd.PrintErrln("No pods are measured yet.")
		return nil
	}
	return printUsages(cmd.OutOrStdout(), t.usages(pods), t.containers, t.namespace.All)
}

// usage is a row of 'top pods'. A number that is not known is nil.
type usage struct {
	namespace, pod, container string
	cpu                       *uint64 // billionths of a processor
	memory                    *uint64 // bytes
}

// usages returns the rows of pods, or of their containers, in the order of --sort-by.
func (t *topFlags) usages(pods []stats.PodStats) []usage {
	var out []usage
	for _, p := range pods {
		row := usage{namespace: p.PodRef.Namespace, pod: p.PodRef.Name}
		var all []usage
		for _, c := range p.Containers {
			all = append(all, row.withStats(c.Name, c.CPU, c.Memory))
		}
		if t.containers {
			out = append(out, all...)
			continue
		}
		row = row.withStats("", p.CPU, p.Memory)
		for _, c := range all { // sums, where the pod as a whole has no measurement
			if p.CPU == nil {
				row.cpu = addOptional(row.cpu, c.cpu)
			}
			if p.Memory == nil {
				row.memory = addOptional(row.memory, c.memory)
			}
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b usage) int {
		largest := 0
		switch t.sortBy {
		case "cpu":
			largest = cmp.Compare(orZero(b.cpu), orZero(a.cpu))
		case "memory":
			largest = cmp.Compare(orZero(b.memory), orZero(a.memory))
		}
		return cmp.Or(largest, cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pod, b.pod), cmp.Compare(a.container, b.container))
	})
	return out
}

func (u usage) withStats(container string, cpu *stats.CPUStats, memory *stats.MemoryStats) usage {
	u.container = container
	if cpu != nil {
		u.cpu = cpu.UsageNanoCores
	}
	if memory != nil {
		u.memory = memory.WorkingSetBytes
	}
	return u
}

func addOptional(a, b *uint64) *uint64 {
	if b == nil {
		return a
	}
	return new(orZero(a) + *b)
}

func orZero(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

func printUsages(w io.Writer, usages []usage, containers, namespaces bool) error {
	namespaces = namespaces || slices.ContainsFunc(usages, func(u usage) bool { return u.namespace != usages[0].namespace })
	rows := table.New(w)
	row := func(u usage, cpu, memory string) {
		cells := []string{u.pod}
		if containers {
			cells = append(cells, u.container)
		}
		if namespaces {
			cells = slices.Insert(cells, 0, u.namespace)
		}
		rows.Row(append(cells, cpu, memory)...)
	}
	podHead := "NAME"
	if containers {
		podHead = "POD"
	}
	row(usage{namespace: "NAMESPACE", pod: podHead, container: "NAME"}, "CPU(cores)", "MEMORY(bytes)")
	for _, u := range usages {
		row(u, printers.Cores(u.cpu), printers.Mebibytes(u.memory))
	}
	return rows.Flush()
}
