package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	defaultRootDir = "/var/lib/berth"
	flagRootDir    = "root-dir"
	flagNamespace  = "namespace"
)

// usageError is what is wrong with a command line, and where help is.
func usageError(cmd *cobra.Command, text string) error {
	return fmt.Errorf("%s (see '%s --help')", text, cmd.CommandPath())
}

// rootDir is the root directory that a command line gives.
func rootDir(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString(flagRootDir)
	return dir
}

// podName reads the name of a pod as people write it: web, or pod/web.
func podName(arg string) (string, error) {
	name := arg
	if _, rest, ok := cutKind(arg); ok {
		name = rest
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q is not the name of a pod: write NAME or pod/NAME", arg)
	}
	return name, nil
}

// onePod wants the name of one pod.
func onePod(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(cmd, "give the name of one pod")
	}
	return nil
}

// addNamespaceFlag gives cmd its -n.
func addNamespaceFlag(cmd *cobra.Command, namespace *string, usage string) {
	cmd.Flags().StringVarP(namespace, flagNamespace, "n", "", usage)
	_ = cmd.RegisterFlagCompletionFunc(flagNamespace, completeNamespaces)
}

func checkNamespace(cmd *cobra.Command, namespace string) error {
	if namespace == "" && cmd.Flags().Changed(flagNamespace) || namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return usageError(cmd, fmt.Sprintf("%q is not the name of a namespace", namespace))
	}
	return nil
}

func atMostOnePod(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError(cmd, "give one pod, or none for all")
	}
	return nil
}

// noArgs says what is wrong in words that help.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, fmt.Sprintf("%q is one word too many", args[0]))
	}
	return nil
}

// addOutputFlag gives cmd its -o.
func addOutputFlag(cmd *cobra.Command, output *string, values []string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "one of "+strings.Join(values, ", "))
	words := slices.Clone(values)
	for i, w := range words {
		words[i] = strings.TrimSuffix(w, "...")
	}
	_ = cmd.RegisterFlagCompletionFunc("output", completeWords(words...))
}

// completeWords completes one of the given words.
func completeWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
