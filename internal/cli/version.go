package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
)

// versionTimeout is how long the agent may take to answer.
const versionTimeout = 2 * time.Second

// versions is the document that 'version -o json' prints. Agent is nil if none runs.
type versions struct {
	Client api.Version  `json:"client"`
	Agent  *api.Version `json:"agent,omitempty"`
}

func newVersionCommand(version string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and of the agent if it runs",
		Example: `  berth version
  berth version -o json`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return cmdutil.UsageError(cmd, fmt.Sprintf("output %q is not known: it can be json", output))
			}
			c, err := cmdutil.NewClient(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), versionTimeout)
			defer cancel()
			agent, err := c.Version(ctx)
			if output == "json" {
				return printVersionsJSON(cmd, versions{Client: api.NewVersion(version), Agent: agent})
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), versionLine("berth", api.NewVersion(version)))
			if err != nil {
				cmd.PrintErrln("agent: " + printers.OneLine(err.Error()))
				return nil
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), versionLine("agent", *agent))
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json")
	_ = cmd.RegisterFlagCompletionFunc("output", cmdutil.CompleteWords("json"))
	return cmd
}

func versionLine(who string, v api.Version) string {
	return fmt.Sprintf("%s %s (%s, %s)", who, v.Version, v.GoVersion, v.Platform)
}

func printVersionsJSON(cmd *cobra.Command, v versions) error {
	out := json.NewEncoder(cmd.OutOrStdout())
	out.SetIndent("", "    ")
	return out.Encode(v)
}
