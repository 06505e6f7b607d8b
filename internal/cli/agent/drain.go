package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api"
	"berth/internal/cli/cmdutil"
)

// drainFlags are the flags of 'drain'.
type drainFlags struct {
	grace         int64
	timeout       time.Duration
	includeStatic bool
	undo          bool
}

func newDrainCommand() *cobra.Command {
	var flags drainFlags
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Stop the pods of this machine, and let none start",
		Long: `Drain stops the pods of this machine before a reboot or an upgrade: those of the lowest
priority first, and critical ones last. From then on no pod starts here, until 'berth drain
--undo', or until the agent is started anew. Meanwhile the node is not ready, and says why.

Each pod has the time to stop that it asks for. The command ends when all have stopped; if they
have not when --timeout is over, it fails and names them. It can be run again.

Pods of a folder or a URL run again after --undo. Those of an API server have failed, and are
replaced by their controllers; 'kubectl drain' moves them away beforehand.`,
		Example: `  berth drain && reboot
  berth drain --grace-period-seconds 10 --timeout 1m
  berth drain --undo`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := flags.read(cmd)
			if err != nil {
				return err
			}
			if flags.undo {
				return undoDrain(cmd)
			}
			return drain(cmd, request)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&flags.grace, "grace-period-seconds", -1, "how long a pod may take to stop at most; -1 leaves that to the pods")
	f.DurationVar(&flags.timeout, "timeout", 10*time.Minute, "how long to wait for all of them; 0 waits for as long as it takes")
	f.BoolVar(&flags.includeStatic, "include-static", true, "also stop the pods of a folder or a URL")
	f.BoolVar(&flags.undo, "undo", false, "let pods run here again")
	for _, name := range []string{"grace-period-seconds", "timeout"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// read checks the flags, and returns the request that they stand for.
func (f *drainFlags) read(cmd *cobra.Command) (api.DrainRequest, error) {
	r := api.DrainRequest{Timeout: f.timeout, KeepStatic: !f.includeStatic}
	if f.undo {
		for _, other := range []string{"grace-period-seconds", "timeout", "include-static"} {
			if cmd.Flags().Changed(other) {
				return r, cmdutil.UsageError(cmd, "--undo and --"+other+" exclude each other")
			}
		}
	}
	switch {
	case f.grace < -1:
		return r, cmdutil.UsageError(cmd, fmt.Sprintf("--grace-period-seconds is %d: give a number of seconds, or -1", f.grace))
	case f.timeout < 0:
		return r, cmdutil.UsageError(cmd, fmt.Sprintf("--timeout is %s, and can't be below 0", f.timeout))
	case f.grace >= 0:
		r.Grace = &f.grace
	}
	return r, nil
}

func drain(cmd *cobra.Command, r api.DrainRequest) error {
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	left, err := c.Drain(cmd.Context(), r, func(e api.DrainEvent) {
		if line := drainLine(e); line != "" {
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), line)
		}
	})
	switch {
	case cmd.Context().Err() != nil:
		return fmt.Errorf("interrupted: no more pods are stopped, and none start; go on with 'berth drain', or take it back with 'berth drain --undo'")
	case err != nil:
		return err
	case len(left) > 0:
		return fmt.Errorf("%d pods have not stopped: %s", len(left), strings.Join(left, ", "))
	}
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), "the node is drained; 'berth drain --undo' lets pods run again")
	return nil
}

// drainLine returns the line that users read of an event.
func drainLine(e api.DrainEvent) string {
	switch e.Step {
	case api.DrainBegan:
		return fmt.Sprintf("no pod starts here any more; %d to stop", e.Pods)
	case api.DrainStopping:
		return fmt.Sprintf("pod %s stopping (has %.0f s)", e.Pod, e.Seconds)
	case api.DrainStopped:
		return fmt.Sprintf("pod %s stopped (%.1f s)", e.Pod, e.Seconds)
	case api.DrainLate:
		return fmt.Sprintf("pod %s has not stopped in time", e.Pod)
	}
	return "" // a step that a newer agent has
}

func undoDrain(cmd *cobra.Command) error {
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Undrain(cmd.Context()); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), "pods may run here again")
	return nil
}
