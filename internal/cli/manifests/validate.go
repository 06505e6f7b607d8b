package manifests

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/core/review"
	"berth/internal/lib/pod"
)

// Commands returns the commands of manifests: validate, diff.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{Other: []*cobra.Command{newValidateCommand(), newDiffCommand()}}
}

func newValidateCommand() *cobra.Command {
	var (
		manifests manifestFlag
		output    string
	)
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Say what the agent would make of a manifest",
		Long: `Say what the agent would make of manifests: what it would refuse, with the line, what it can't do
yet, and what is seldom meant. Nothing has to run, and nothing is changed.

The exit code is 1 if anything would be refused. Warnings are no reason to fail.`,
		Example: `  berth validate -f pod.yaml
  berth validate -f /etc/berth/manifests
  generate-pod | berth validate -f - -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			documents, err := cmdutil.DocumentPrinter(cmd, output)
			if err != nil {
				return err
			}
			files, err := manifests.read(cmd, args)
			if err != nil {
				return err
			}
			result, err := review.Read(files, defaultNodeName())
			if err != nil {
				return err
			}
			if documents != nil {
				err = documents.Print(newValidationReport(result, len(files)))
			} else {
				err = printValidationReport(cmd.OutOrStdout(), newValidationReport(result, len(files)), cmdutil.Colored(cmd))
			}
			if err == nil && result.Failed() {
				err = &cmdutil.ExitError{Code: 1} // the findings are printed already
			}
			return err
		},
	}
	manifests.addTo(cmd)
	cmdutil.AddDocumentFlag(cmd, &output)
	return cmd
}

// validationReport is the document that 'validate -o json' prints.
type validationReport struct {
	Files    int              `json:"files"`
	Pods     []string         `json:"pods"` // without errors
	Errors   int              `json:"errors"`
	Warnings int              `json:"warnings"`
	Findings []review.Finding `json:"findings"`
}

func newValidationReport(r *review.Result, files int) validationReport {
	v := validationReport{Files: files, Pods: []string{}, Findings: append([]review.Finding{}, r.Findings...)}
	for _, p := range r.Pods {
		v.Pods = append(v.Pods, pod.Ref(p.Pod))
	}
	for _, f := range r.Findings {
		if f.Level == review.Error {
			v.Errors++
		} else {
			v.Warnings++
		}
	}
	return v
}

func printValidationReport(w io.Writer, v validationReport, colors bool) error {
	for _, f := range v.Findings {
		if _, err := fmt.Fprintln(w, findingText(f, colors)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s in %s: %s, %s\n",
		printers.Plural(len(v.Pods), "good pod"), printers.Plural(v.Files, "manifest"), printers.Plural(v.Errors, "error"), printers.Plural(v.Warnings, "warning"))
	return err
}

// findingText returns a finding as file:line: level: message, which editors can jump to.
func findingText(f review.Finding, colors bool) string {
	where, level := f.Origin, string(f.Level)
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, f.Line)
	}
	if colors {
		level = cmdutil.InColor(map[review.Level]string{review.Error: cmdutil.Red, review.Warning: cmdutil.Yellow}[f.Level], level)
	}
	text := fmt.Sprintf("%s: %s: %s", where, level, printers.OneLine(f.Message))
	if f.Pod != "" {
		text += fmt.Sprintf(" (pod %s)", f.Pod)
	}
	return text
}
