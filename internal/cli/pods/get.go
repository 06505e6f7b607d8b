// Package pods has the commands of pods: get, describe, top, logs, exec, attach, port-forward, cp, debug and waterfall.
package pods

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
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

// getFlags are the flags of 'get pods'.
type getFlags struct {
	remote    cmdutil.RemoteFlags
	namespace cmdutil.NamespaceFlags
	output    string
	watch     bool
	selector  string
}

func newGetPodsCommand() *cobra.Command {
	var flags getFlags
	cmd := &cobra.Command{
		Use:     "pods [NAME]",
		Aliases: []string{"pod", "po"},
		Short:   "Show pods, and manifests that were refused",
		Long: `Show pods, of all namespaces unless one is given.

NAME is the full name of a pod, or its name in the manifest, without the name of the node.
Manifests that were refused are printed on stderr, with the file, the line and the reason.`,
		Example: `  berth get pods
  berth get pods -o wide
  berth get pods hello -o yaml
  berth get pods -l app=web,tier!=test
  berth get pods hello -o jsonpath='{.status.podIP}'
  berth get pods --watch`,
		Args:              cmdutil.AtMostOnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := flags.namespace.Filter(cmd, args)
			if err != nil {
				return err
			}
			selector, err := flags.labels(cmd, args)
			if err != nil {
				return err
			}
			o := printers.Options{Output: flags.output, Namespaces: flags.namespace.All, Each: filter.Name != "" || flags.watch}
			printer, err := cmdutil.NewGetter(cmd, kind(), o)
			if err != nil {
				return err
			}
			g := &getter{cmd: cmd, printer: printer, selector: selector}
			if flags.watch {
				return g.watch(&flags.remote, filter)
			}
			return g.list(&flags.remote, filter)
		},
	}
	flags.remote.AddTo(cmd)
	cmdutil.AddOutputFlag(cmd, &flags.output)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "go on and show changes, until interrupted")
	cmd.Flags().StringVarP(&flags.selector, "selector", "l", "", "show pods with these labels only, such as app=web,tier!=test")
	flags.namespace.AddTo(cmd)
	_ = cmd.RegisterFlagCompletionFunc("selector", cobra.NoFileCompletions)
	return cmd
}

// labels parses --selector.
func (f *getFlags) labels(cmd *cobra.Command, args []string) (labels.Selector, error) {
	if f.selector != "" && len(args) > 0 {
		return nil, cmdutil.UsageError(cmd, "give the name of a pod or a --selector, not both")
	}
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, cmdutil.UsageError(cmd, fmt.Sprintf("--selector is %q: %v", f.selector, err))
	}
	return selector, nil
}

// getter prints pods, and on stderr the manifests that were refused.
type getter struct {
	cmd      *cobra.Command
	printer  *cmdutil.Getter[podItem]
	selector labels.Selector

	synced  bool
	refused []pod.Refusal // at the beginning of a watch
}

// list prints the pods that there are.
func (g *getter) list(remote *cmdutil.RemoteFlags, f client.Filter) error {
	n, err := remote.Node(g.cmd)
	if err != nil {
		return err
	}
	defer n.Close()
	list, err := n.Pods(g.cmd.Context(), f)
	if err != nil {
		return err
	}
	var pods []podItem
	for _, p := range list.Pods.Items {
		if g.selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, podItem{Pod: p})
		}
	}
	if err := g.printer.PrintAll(pods); err != nil {
		return err
	}
	g.printRefusals(list.Refused)
	return nil
}

// watch prints the pods that there are, and then each change, until it is interrupted.
func (g *getter) watch(remote *cmdutil.RemoteFlags, f client.Filter) error {
	isRemote, err := remote.Given(g.cmd)
	switch {
	case err != nil:
		return err
	case isRemote:
		return cmdutil.UsageError(g.cmd, "the node API can't be watched: leave out --watch, or watch the cluster with 'kubectl get pods -A -w --field-selector spec.nodeName=NODE'")
	}
	return cmdutil.WithClient(g.cmd, func(ctx context.Context, c *client.Client) error {
		return cmdutil.UntilInterrupted(c.Watch(ctx, f, g.handle))
	})
}

// handle prints one event of a watch.
func (g *getter) handle(e api.Event) error {
	switch {
	case e.Type == api.Synced:
		err := g.printer.Synced()
		g.printRefusals(g.refused)
		g.synced, g.refused = true, nil
		return err
	case e.Pod != nil && g.selector.Matches(labels.Set(e.Pod.Labels)):
		return g.printer.Watched(podItem{Pod: *e.Pod, deleted: e.Type == api.Deleted})
	case e.Refusal != nil && !g.synced:
		g.refused = append(g.refused, *e.Refusal)
	case e.Type == api.Refused:
		g.printRefusals([]pod.Refusal{*e.Refusal})
	case e.Type == api.Resolved:
		was := *e.Refusal
		was.Kept = false // it is in force now
		g.cmd.PrintErrln("no longer refused: " + printers.Refusal(was))
	}
	return nil
}

func (g *getter) printRefusals(refused []pod.Refusal) {
	for _, r := range refused {
		g.cmd.PrintErrln("refused: " + printers.Refusal(r))
	}
}
