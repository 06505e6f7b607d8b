package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/app"
	"berth/internal/cli/cmdutil"
	"berth/internal/config"
	"berth/internal/host/rootlock"
	"berth/internal/lib/logging"
)

func newDownCommand() *cobra.Command {
	var timeout time.Duration
	var grace int64
	var verbosity int
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the agent, its pods and its runtime",
		Long: `Down ends the agent if one runs, stops all pods with the grace that they ask for, and then the
container runtime. No process, mount, network link, firewall rule or cgroup of it is left.
Manifests and images stay: 'berth run' brings everything back.

If the agent was given a --container-runtime-endpoint, its pods are stopped and that runtime is
left alone. So is everything of agents with another --root-dir.

A pod may ask for more time than you have: --grace-period is the most that each of them gets.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			surviveDeadPipe()
			if err := requireRoot("down"); err != nil {
				return err
			}
			root, err := filepath.Abs(cmdutil.RootDir(cmd))
			if err != nil {
				return fmt.Errorf("find the root directory: %w", err)
			}
			c, err := config.LoadSaved(root)
			if err != nil {
				return err
			}
			if c == nil {
				return fmt.Errorf("no berth ever ran on %s: give its root with --root-dir", root)
			}
			if err := app.CheckUsers(c); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			lock, err := rootlock.TakeOver(ctx, root)
			if err != nil {
				return err
			}
			defer lock.Release()
			log, err := logging.New(cmd.ErrOrStderr(), verbosity)
			if err != nil {
				return err
			}
			defer log.Output.Flush(logging.FlushTimeout)
			for _, warning := range c.Warnings {
				log.Warn(warning)
			}
			return app.Down(ctx, c, grace, log.Logger)
		},
	}
	cmd.Flags().IntVar(&verbosity, "v", 0, "how much to log: 4 and more is for developers")
	cmd.Flags().Int64Var(&grace, "grace-period", app.OwnGrace, "the most `seconds` that a pod may take to stop; below zero: what it asks for")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for all of it")
	return cmd
}
