package pods

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
	"berth/internal/api/find"
	"berth/internal/cli/printers"
	"berth/internal/lib/run"
)

// printAllLogs prints the logs of all containers of a pod, one after the other, or all
// at the same time if they are followed. An error of one log does not end the others.
func printAllLogs(cmd *cobra.Command, n client.Node, r client.LogRequest) error {
	filter := client.Filter{Namespace: r.Namespace, Name: r.Pod}
	list, err := n.Pods(cmd.Context(), filter)
	if err != nil {
		return err
	}
	pods := make([]*v1.Pod, 0, len(list.Pods.Items))
	for i := range list.Pods.Items {
		pods = append(pods, &list.Pods.Items[i])
	}
	p, problem := find.Filter(filter).One(pods)
	if problem != nil {
		return problem
	}
	r.Namespace, r.Pod = p.Namespace, p.Name

	var out sync.Mutex
	copyOne := func(ctx context.Context, container string) error {
		w := &printers.LineWriter{W: cmd.OutOrStdout(), Mu: &out, Prefix: linePrefix(p.Name, container)}
		defer w.Flush()
		r := r
		r.Container = container
		log, err := n.Log(ctx, r)
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		return endOfLog(r, log.CopyTo(w))
	}
	names := inStartOrder(p)
	var errs []error
	if !r.Follow {
		for _, name := range names {
			errs = append(errs, copyOne(cmd.Context(), name))
		}
		return errors.Join(errs...)
	}
	group := run.NewGroup(cmd.Context(), slog.New(slog.DiscardHandler))
	defer group.Stop()
	ended := make(chan error, len(names))
	for _, name := range names {
		group.Go("log of "+name, func(ctx context.Context) { ended <- copyOne(ctx, name) })
	}
	for range names {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// linePrefix returns the prefix of the lines of a container, as in 'kubectl logs --prefix'.
func linePrefix(pod, container string) string { return fmt.Sprintf("[pod/%s/%s] ", pod, container) }

// inStartOrder returns the names of all containers, init containers first.
func inStartOrder(p *v1.Pod) []string {
	var names []string
	for _, c := range p.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}
