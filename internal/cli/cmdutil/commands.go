// Package cmdutil is what commands have in common: the root command, flags and their completion, the connection to an
// agent or a node, colours, exit codes. It is imported by all nouns, and imports none.
package cmdutil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/lib/nearest"
)

// Commands are the commands of one noun. A verb that the noun does not have is nil.
type Commands struct {
	Get, Describe, Top *cobra.Command   // below the verb, as in 'berth get pods'
	Other              []*cobra.Command // below 'berth'
}

// NewRoot returns the command 'berth', with the commands of nouns below it. Cobra adds
// completion and help to it.
func NewRoot(version string, nouns ...Commands) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Run the pods of this machine",
		Long: `Berth keeps the containers of this machine in the state that pod manifests describe.

'berth run' is the agent: it takes manifests from a folder, a URL or an API server. The
other commands talk to it over the socket in its root directory. Root may do that, and so
may the members of group "berth" if there is such a group.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true, // Execute prints them
	}
	root.PersistentFlags().String(FlagRootDir, defaultRootDir, "folder that holds the state of the agent, and its socket")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError(cmd, cmp.Or(explainLocalOnly(cmd, err), err.Error()+nearestFlag(cmd, err)))
	})
	get := newVerb("get", "Show what runs on this machine, and what happened to it",
		"berth can't get %q: it can get pods, events, node, images and volumes",
		"say what to get: pods, events, node, images or volumes, as in 'berth get pods'")
	describe := newVerb("describe", "Show all about a pod or this node",
		"berth can't describe %q: it can describe pods and the node, as in 'berth describe pod POD'",
		"say what to describe: 'berth describe pod POD' or 'berth describe node'")
	top := newVerb("top", "Show what pods and this node use of the machine",
		"berth can't measure %q: it can measure pods and the node",
		"say what to measure: 'berth top pods' or 'berth top node'")
	root.AddCommand(get, describe, top)
	for _, noun := range nouns {
		for verb, cmd := range map[*cobra.Command]*cobra.Command{get: noun.Get, describe: noun.Describe, top: noun.Top} {
			if cmd != nil {
				verb.AddCommand(cmd)
			}
		}
		root.AddCommand(noun.Other...)
	}
	_ = root.MarkPersistentFlagDirname(FlagRootDir)
	addColorFlag(root)
	return root
}

// nearestFlag returns the end of an error that names the flag which an unknown one was probably meant to be, or nothing.
func nearestFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	return nearest.Hint(unknown.GetSpecifiedName(), "--", known)
}

// newVerb returns a command that only has commands below it. Another argument fails with the text unknown, and no
// argument with the text missing.
func newVerb(verb, short, unknown, missing string) *cobra.Command {
	return &cobra.Command{
		Use:   verb,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return UsageError(cmd, fmt.Sprintf(unknown, args[0]))
			}
			return UsageError(cmd, missing)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused already
	}
}

// Execute runs the command that args name, and returns the exit code. An error is one line on stderr.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer, args ...string) int {
	root.SetArgs(splitKind(args))
	if err := root.ExecuteContext(ctx); err != nil {
		return printError(stderr, err)
	}
	return 0
}

// splitKind turns 'get pod/web' into 'get pod web', as kubectl takes both.
func splitKind(args []string) []string {
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

// cutKind splits pod/web into kind and name. ok is false for other kinds, and without one.
func cutKind(arg string) (kind, name string, ok bool) {
	kind, name, ok = strings.Cut(arg, "/")
	return kind, name, ok && (kind == "pod" || kind == "pods" || kind == "po")
}
