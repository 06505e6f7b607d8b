package cmdutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/cli/printers"
)

const (
	defaultRootDir = "/var/lib/berth"
	FlagRootDir    = "root-dir" // of all commands
	flagNamespace  = "namespace"
)

// UsageError returns an error that also says where the help of cmd is.
func UsageError(cmd *cobra.Command, text string) error {
	return fmt.Errorf("%s (see '%s --help')", text, cmd.CommandPath())
}

// RootDir returns the value of --root-dir.
func RootDir(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString(FlagRootDir)
	return dir
}

// podName returns the name of a pod in an argument: web, or pod/web.
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

// OnePod is the Args of a command that takes the name of one pod.
func OnePod(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return UsageError(cmd, "give the name of one pod")
	}
	return nil
}

// AddNamespaceFlag adds -n to cmd.
func AddNamespaceFlag(cmd *cobra.Command, namespace *string, usage string) {
	cmd.Flags().StringVarP(namespace, flagNamespace, "n", "", usage)
	_ = cmd.RegisterFlagCompletionFunc(flagNamespace, completeNamespaces)
}

func checkNamespace(cmd *cobra.Command, namespace string) error {
	if namespace == "" && cmd.Flags().Changed(flagNamespace) || namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return UsageError(cmd, fmt.Sprintf("%q is not the name of a namespace", namespace))
	}
	return nil
}

// AtMostOnePod is the Args of a command that takes the name of one pod, or none.
func AtMostOnePod(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return UsageError(cmd, "give one pod, or none for all")
	}
	return nil
}

// NoArgs is the Args of a command that takes none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError(cmd, fmt.Sprintf("%q is one word too many", args[0]))
	}
	return nil
}

// AddOutputFlag adds the -o of a 'get' command.
func AddOutputFlag(cmd *cobra.Command, output *string) {
	addOutputFlag(cmd, output, printers.ObjectFormats())
}

func addOutputFlag(cmd *cobra.Command, output *string, values []string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "one of "+strings.Join(values, ", "))
	words := slices.Clone(values)
	for i, w := range words {
		words[i] = strings.TrimSuffix(w, "...")
	}
	_ = cmd.RegisterFlagCompletionFunc("output", CompleteWords(words...))
}

// AddDocumentFlag adds the -o of a command that has one table: json and yaml.
func AddDocumentFlag(cmd *cobra.Command, output *string) {
	addOutputFlag(cmd, output, printers.DocumentFormats())
}

// DocumentPrinter returns the printer for the -o of AddDocumentFlag, and nil for the table.
func DocumentPrinter(cmd *cobra.Command, output string) (*printers.ObjectPrinter, error) {
	p, err := printers.NewObjectPrinter(cmd.OutOrStdout(), output, printers.DocumentFormats())
	if err != nil {
		return nil, UsageError(cmd, err.Error())
	}
	return p, nil
}

// CompleteWords completes one of the given words.
func CompleteWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
