// Package cli is the command line of berth: 'berth run' is the agent, the other commands ask it over
// its local socket, or another node over its HTTPS port.
//
// Commands import the composition of the agent (app), its configuration and its APIs, and none of the agent's parts.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"berth/internal/api/client"
	"berth/internal/lib/logging"
)

const (
	defaultRootDir = "/var/lib/berth"
	flagRootDir    = "root-dir"
	flagNamespace  = "namespace"
)

// Run runs the command that args name, the first of which is the name of the program, and returns its
// exit code. Started as kubelet, the command is 'run'.
func Run(ctx context.Context, version string, args []string, stderr io.Writer) int {
	klog.SetSlogLogger(slog.New(complaints{stderr})) // 'berth run' has a better one
	root := newRootCommand(version)
	command := args[1:]
	if filepath.Base(args[0]) == "kubelet" {
		command = append([]string{"run"}, command...)
	}
	root.SetArgs(kindApart(command))
	output := logging.NewOutput(stderr) // it may not be read, and the agent has to end all the same
	defer output.Flush(logging.FlushTimeout)
	return exitCode(ctx, root, output)
}

// newRootCommand returns the command that all others hang on. Cobra adds
// completion and help to it.
func newRootCommand(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Run the pods of this machine",
		Long: `Berth keeps the containers of this machine in the state that pod manifests describe.

'berth run' is the agent: it takes manifests from a folder, a URL or an API server. The
other commands talk to it over the socket in its root directory. Root may do that, and so
may the members of group "berth" if there is such a group.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true, // exitCode prints them
	}
	root.PersistentFlags().String(flagRootDir, defaultRootDir, "folder that holds the state of the agent, and its socket")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd, cmp.Or(localOnly(cmd, err), err.Error()))
	})
	root.AddCommand(newRunCommand(), newDownCommand(), newDrainCommand(), newGetCommand(), newDescribeCommand(), newLogsCommand(), newVersionCommand(version))
	root.AddCommand(newImageCommand(), newGCCommand(), newTopCommand(), newWaterfallCommand(), newValidateCommand(), newDiffCommand(), newDoctorCommand())
	root.AddCommand(newExecCommand(), newAttachCommand(), newPortForwardCommand(), newCopyCommand(), newDebugCommand())
	_ = root.MarkPersistentFlagDirname(flagRootDir)
	addColorFlag(root)
	return root
}

// exitCode runs the command that its arguments name, and returns the exit code.
// An error is one line on stderr.
func exitCode(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	return report(stderr, err)
}

// oneLine joins the lines of a text. Most have only one.
func oneLine(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, " ")
}

// usageError is what is wrong with a command line, and where help is.
func usageError(cmd *cobra.Command, text string) error {
	return fmt.Errorf("%s (see '%s --help')", text, cmd.CommandPath())
}

// rootDir is the root directory that a command line gives.
func rootDir(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString(flagRootDir)
	return dir
}

func newClient(cmd *cobra.Command) (*client.Client, error) { return client.New(rootDir(cmd)) }

// kindApart lets people write 'get pod/web' for 'get pod web', as with kubectl.
func kindApart(args []string) []string {
	verb := slices.IndexFunc(args, func(arg string) bool { return arg == "get" || arg == "describe" || arg == "top" })
	if verb < 0 || verb+1 == len(args) {
		return args
	}
	kind, name, ok := cutKind(args[verb+1])
	if !ok {
		return args
	}
	return slices.Concat(args[:verb+1], []string{kind, name}, args[verb+2:])
}

// cutKind splits pod/web.
func cutKind(arg string) (kind, name string, ok bool) {
	kind, name, ok = strings.Cut(arg, "/")
	return kind, name, ok && (kind == "pod" || kind == "pods" || kind == "po")
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
