package manifests

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/core/review"
)

// The exit codes of diff(1).
const (
	exitDifferent = 1
	exitFailed    = 2
)

func newDiffCommand() *cobra.Command {
	var (
		manifests manifestFlag
		output    string
	)
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show what an edited manifest would change",
		Long: `Show what manifests would do to the pods that run, if they were put into the folder of the agent: which pods
would start, be replaced or be removed, and how they differ. Nothing is changed.

Any edit of a pod makes another pod of it: the one that runs is stopped, and the new one started. Only a
pod whose manifest gives it a metadata.uid is altered in place. A folder is taken as all that there is to
be: pods that are not in it would be removed. A single manifest says nothing of other pods.

The exit code is 0 if nothing would change, 1 if something would, and 2 if that can't be known or a
manifest would be refused.`,
		Example: `  berth diff -f ./manifests
  berth diff -f web.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed, err := diff(cmd, args, &manifests, output)
			switch {
			case err != nil:
				return &cmdutil.ExitError{Code: exitFailed, Err: err}
			case changed:
				return &cmdutil.ExitError{Code: exitDifferent}
			}
			return nil
		},
	}
	manifests.addTo(cmd)
	cmdutil.AddDocumentFlag(cmd, &output)
	return cmd
}

func diff(cmd *cobra.Command, args []string, manifests *manifestFlag, output string) (changed bool, err error) {
	documents, err := cmdutil.DocumentPrinter(cmd, output)
	if err != nil {
		return false, err
	}
	files, err := manifests.read(cmd, args)
	if err != nil {
		return false, err
	}
	running, node, err := runningPods(cmd)
	if err != nil {
		return false, err
	}
	result, err := review.Read(files, node)
	if err != nil {
		return false, err
	}
	changes, err := result.Changes(running, manifests.wholeFolder(args))
	if err != nil {
		return false, err
	}
	if documents != nil {
		err = documents.Print(append([]review.Change{}, changes...))
	} else {
		err = printChanges(cmd.OutOrStdout(), changes, cmdutil.Colored(cmd))
	}
	if err != nil {
		return false, err
	}
	return len(changes) > 0, reportRefused(cmd, result)
}

// reportRefused prints the manifests that would be refused, and returns an error if there are any.
func reportRefused(cmd *cobra.Command, result *review.Result) error {
	if !result.Failed() {
		return nil
	}
	refused := 0
	for _, f := range result.Findings {
		if f.Level == review.Error {
			cmd.PrintErrln("refused: " + findingText(f, false))
			refused++
		}
	}
	return fmt.Errorf("%s would be refused: what runs of them would stay as it is", printers.Plural(refused, "manifest"))
}

// runningPods returns the pods of the agent, and the name of its node.
func runningPods(cmd *cobra.Command) ([]*v1.Pod, string, error) {
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	list, err := c.Pods(cmd.Context(), client.Filter{})
	if err != nil {
		return nil, "", err
	}
	node := defaultNodeName()
	if n, err := c.Machine(cmd.Context()); err == nil {
		node = n.Name
	}
	var pods []*v1.Pod
	for i := range list.Pods.Items {
		p := &list.Pods.Items[i]
		pods = append(pods, p)
		if p.Spec.NodeName != "" {
			node = p.Spec.NodeName
		}
	}
	return pods, node, nil
}

func printChanges(w io.Writer, changes []review.Change, colors bool) error {
	for _, c := range changes {
		text := fmt.Sprintf("pod %s would be %s: %s", c.Pod, c.Kind, c.Note)
		if c.Kind == review.Altered && len(c.Restarts) > 0 {
			text += ": " + strings.Join(c.Restarts, ", ")
		}
		if c.Origin != "" && c.Diff == "" {
			text += " (" + c.Origin + ")"
		}
		text += "\n"
		for line := range strings.Lines(c.Diff) {
			if colors {
				line = cmdutil.InColor(diffColor(line), strings.TrimSuffix(line, "\n")) + "\n"
			}
			text += line
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

func diffColor(line string) string {
	switch line[0] {
	case '-':
		return cmdutil.Red
	case '+':
		return cmdutil.Green
	case '@':
		return cmdutil.Cyan
	}
	return ""
}
