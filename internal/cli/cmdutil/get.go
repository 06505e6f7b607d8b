package cmdutil

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"berth/internal/api/client"
	"berth/internal/cli/printers"
)

// NamespaceFlags are -n and -A of commands that show objects of several namespaces.
type NamespaceFlags struct {
	Namespace string // empty: all
	All       bool   // -A: with a column of namespaces
}

// AddTo adds the flags to cmd.
func (f *NamespaceFlags) AddTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.All, "all-namespaces", "A", false, "show all namespaces, each with its name")
	AddNamespaceFlag(cmd, &f.Namespace, "show this namespace only")
}

// Filter returns a filter for the pods of the namespace, and of the name in args, if there is one.
func (f *NamespaceFlags) Filter(cmd *cobra.Command, args []string) (client.Filter, error) {
	if f.All && f.Namespace != "" {
		return client.Filter{}, UsageError(cmd, "--namespace and --all-namespaces exclude each other")
	}
	return PodFilter(cmd, f.Namespace, args)
}

// PodFilter returns a filter for the pods of a namespace, if it is not empty, and of the name in args, if there is one.
func PodFilter(cmd *cobra.Command, namespace string, args []string) (f client.Filter, err error) {
	if err := checkNamespace(cmd, namespace); err != nil {
		return f, err
	}
	f.Namespace = namespace
	if len(args) > 0 {
		f.Name, err = podName(args[0])
	}
	return f, err
}

// SelectPods returns a function that reports whether a pod is one of those that f chooses. It asks the node, which knows
// what a name stands for.
func SelectPods(ctx context.Context, n client.Node, f client.Filter) (selected func(uid string) bool, err error) {
	if f == (client.Filter{}) {
		return func(string) bool { return true }, nil
	}
	list, err := n.Pods(ctx, f)
	if err != nil {
		return nil, err
	}
	uids := map[string]bool{}
	for i := range list.Pods.Items {
		uids[string(list.Pods.Items[i].UID)] = true
	}
	return func(uid string) bool { return uids[uid] }, nil
}

// Getter prints the objects of a 'get' command: all that there are, or all at the beginning of a watch and then each
// change.
type Getter[T any] struct {
	cmd     *cobra.Command
	kind    printers.Kind[T]
	printer *printers.Printer[T]

	synced bool // the beginning was printed
	first  []T  // objects of the beginning
}

// NewGetter returns a getter that prints to the output of cmd.
func NewGetter[T any](cmd *cobra.Command, kind printers.Kind[T], o printers.Options) (*Getter[T], error) {
	o.Paint = StatusPainter(cmd)
	printer, err := printers.NewPrinter(cmd.OutOrStdout(), kind, o)
	if err != nil {
		return nil, UsageError(cmd, err.Error())
	}
	return &Getter[T]{cmd: cmd, kind: kind, printer: printer}, nil
}

// PrintAll prints all objects, and on stderr that there are none.
func (g *Getter[T]) PrintAll(objects []T) error {
	if g.kind.Sort != nil {
		g.kind.Sort(objects)
	}
	if len(objects) == 0 {
		g.cmd.PrintErrf("No %s found.\n", g.kind.Plural)
	}
	return g.printer.Print(objects)
}

// Watched takes an object of a watch. It is printed at once, or by Synced.
func (g *Getter[T]) Watched(object T) error {
	if !g.synced {
		g.first = append(g.first, object)
		return nil
	}
	return g.printer.Print([]T{object})
}

// Synced prints the objects at the beginning of a watch.
func (g *Getter[T]) Synced() error {
	err := g.PrintAll(g.first)
	g.synced, g.first = true, nil
	return err
}

// Get prints the objects that list reads from the agent of this machine.
func Get[T any](cmd *cobra.Command, kind printers.Kind[T], o printers.Options, list func(context.Context, *client.Client) ([]T, error)) error {
	g, err := NewGetter(cmd, kind, o)
	if err != nil {
		return err
	}
	return WithClient(cmd, func(ctx context.Context, c *client.Client) error {
		objects, err := list(ctx, c)
		if err != nil {
			return err
		}
		return g.PrintAll(objects)
	})
}

// UntilInterrupted turns the error of a watch that the user ended into nil.
func UntilInterrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
