package cmdutil

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
	"berth/internal/api/find"
)

// completionTimeout is how long the shell waits for the agent after the tab key.
const completionTimeout = time.Second

// CompletePods completes the name of one pod.
func CompletePods(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f := client.Filter{Namespace: namespaceFlag(cmd)}
	return complete(cmd, f, prefix, func(p v1.Pod) []string { return []string{p.Name} })
}

// completeNamespaces completes the namespaces that have pods.
func completeNamespaces(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, client.Filter{}, prefix, func(p v1.Pod) []string { return []string{p.Namespace} })
}

// CompleteContainers completes the containers of the pod in the first argument.
func CompleteContainers(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	name, err := podName(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f := client.Filter{Namespace: namespaceFlag(cmd), Name: name}
	return complete(cmd, f, prefix, func(p v1.Pod) []string { return find.Containers(&p) })
}

// complete returns the words that pods of the agent have for a prefix. Errors are left out: a message would
// stand in the middle of the command line.
func complete(cmd *cobra.Command, f client.Filter, prefix string, words func(v1.Pod) []string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	c, err := NewClient(cmd)
	if err != nil {
		return nil, directive
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := c.Pods(ctx, f)
	if err != nil {
		return nil, directive
	}
	var found []string
	for _, p := range list.Pods.Items {
		for _, w := range words(p) {
			if strings.HasPrefix(w, prefix) {
				found = append(found, w)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), directive
}

func namespaceFlag(cmd *cobra.Command) string {
	namespace, _ := cmd.Flags().GetString(flagNamespace)
	return namespace
}
