// Package pods has the commands of pods: get, describe, top, logs, exec, attach, port-forward, cp, debug and waterfall.
package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
)

// Commands returns the commands of pods.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{
		Get: newGetPodsCommand(), Describe: newDescribePodCommand(), Top: newTopPodsCommand(),
		Other: []*cobra.Command{
			newLogsCommand(), newExecCommand(), newAttachCommand(), newPortForwardCommand(), newCopyCommand(), newDebugCommand(), newWaterfallCommand(),
		},
	}
}

// getPods is what the flags of 'get pods' say.
type getPods struct {
	cmdutil.RemoteFlags
	filter client.Filter
	output string
	watch  bool
	all    bool
	labels string
	chosen labels.Selector // what labels says
}

func newGetPodsCommand() *cobra.Command {
	var g getPods
	cmd := &cobra.Command{
		Use:     "pods [NAME]",
		Aliases: []string{"pod", "po"},
		Short:   "Show pods, and manifests that were refused",
		Long: `Show pods, of all namespaces unless one is given.

NAME is the full name of a pod, or its name in the manifest, without the name of the node.
Manifests that were refused are told on stderr, with the file, the line and the reason.`,
		Example: `  berth get pods
  berth get pods -o wide
  berth get pods hello -o yaml
  berth get pods -l app=web,tier!=test
  berth get pods hello -o jsonpath='{.status.podIP}'
  berth get pods --watch`,
		Args:              cmdutil.AtMostOnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.read(cmd, args); err != nil {
				return err
			}
			return g.run(cmd)
		},
	}
	g.AddTo(cmd)
	cmdutil.AddOutputFlag(cmd, &g.output, printers.ObjectFormats())
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on and show changes, until interrupted")
	cmd.Flags().BoolVarP(&g.all, "all-namespaces", "A", false, "show all namespaces, each with its name")
	cmd.Flags().StringVarP(&g.labels, "selector", "l", "", "show pods with these labels only, such as app=web,tier!=test")
	cmdutil.AddNamespaceFlag(cmd, &g.filter.Namespace, "show this namespace only")
	_ = cmd.RegisterFlagCompletionFunc("selector", cobra.NoFileCompletions)
	return cmd
}

// read checks the command line.
func (g *getPods) read(cmd *cobra.Command, args []string) (err error) {
	if g.all && g.filter.Namespace != "" {
		return cmdutil.UsageError(cmd, "--namespace and --all-namespaces exclude each other")
	}
	if err := cmdutil.CheckNamespace(cmd, g.filter.Namespace); err != nil {
		return err
	}
	if len(args) > 0 {
		if g.filter.Name, err = cmdutil.PodName(args[0]); err != nil {
			return err
		}
	}
	if g.labels != "" && len(args) > 0 {
		return cmdutil.UsageError(cmd, "give the name of a pod or a --selector, not both")
	}
	if g.chosen, err = labels.Parse(g.labels); err != nil {
		return cmdutil.UsageError(cmd, fmt.Sprintf("--selector is %q: %v", g.labels, err))
	}
	return nil
}

// unwanted tells whether a pod has not the labels that are asked for.
func (g *getPods) unwanted(p v1.Pod) bool { return !g.chosen.Matches(labels.Set(p.Labels)) }

func (g *getPods) run(cmd *cobra.Command) error {
	printer, err := newPodPrinter(cmd.OutOrStdout(), g.output, g.all, g.filter.Name != "" || g.watch, cmdutil.StatusPainter(cmd))
	if err != nil {
		return cmdutil.UsageError(cmd, err.Error())
	}
	if g.watch {
		return g.runWatch(cmd, printer)
	}
	n, err := g.Node(cmd)
	if err != nil {
		return err
	}
	defer n.Close()
	list, err := n.Pods(cmd.Context(), g.filter)
	if err != nil {
		return err
	}
	return printState(cmd, printer, slices.DeleteFunc(list.Pods.Items, g.unwanted), list.Refused)
}

// runWatch shows changes until it is interrupted.
func (g *getPods) runWatch(cmd *cobra.Command, printer podPrinter) error {
	far, err := g.Given(cmd)
	switch {
	case err != nil:
		return err
	case far:
		return cmdutil.UsageError(cmd, "a node does not tell of changes over the network: leave out --watch, or watch the cluster with 'kubectl get pods -A -w --field-selector spec.nodeName=NODE'")
	}
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	w := &podWatch{cmd: cmd, printer: printer}
	err = c.Watch(cmd.Context(), g.filter, func(e api.Event) error {
		if e.Pod != nil && g.unwanted(*e.Pod) {
			return nil
		}
		return w.tell(e)
	})
	if errors.Is(err, context.Canceled) {
		return nil // that is how a watch ends
	}
	return err
}

// printState prints all pods, in the order of their names, and on stderr what
// was refused.
func printState(cmd *cobra.Command, printer podPrinter, pods []v1.Pod, refused []pod.Refusal) error {
	slices.SortStableFunc(pods, func(a, b v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if err := printer.print(pods, false); err != nil {
		return err
	}
	if len(pods) == 0 {
		cmd.PrintErrln("No pods found.")
	}
	for _, r := range refused {
		cmd.PrintErrln("refused: " + printers.Refusal(r))
	}
	return nil
}

// podWatch prints what a watch tells: the present state as a whole, then each
// change.
type podWatch struct {
	cmd     *cobra.Command
	printer podPrinter

	synced  bool
	first   []v1.Pod
	refused []pod.Refusal
}

func (w *podWatch) tell(e api.Event) error {
	switch {
	case e.Type == api.Synced:
		return w.sync()
	case e.Pod != nil && !w.synced:
		w.first = append(w.first, *e.Pod)
	case e.Pod != nil:
		return w.printer.print([]v1.Pod{*e.Pod}, e.Type == api.Deleted)
	case e.Refusal != nil && !w.synced:
		w.refused = append(w.refused, *e.Refusal)
	case e.Type == api.Refused:
		w.cmd.PrintErrln("refused: " + printers.Refusal(*e.Refusal))
	case e.Type == api.Resolved:
		was := *e.Refusal
		was.Kept = false // of no interest any more
		w.cmd.PrintErrln("no longer refused: " + printers.Refusal(was))
	}
	return nil
}

// sync prints the state at the beginning.
func (w *podWatch) sync() error {
	err := printState(w.cmd, w.printer, w.first, w.refused)
	w.synced, w.first, w.refused = true, nil, nil
	return err
}
