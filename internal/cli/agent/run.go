// Package agent has the commands of the agent as a whole: run, run --once, kubelet, down and drain.
package agent

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"berth/internal/app"
	"berth/internal/cli/cmdutil"
	"berth/internal/config"
	"berth/internal/host/rootlock"
	"berth/internal/lib/logging"
)

// Commands returns the commands of the agent as a whole: run, kubelet, down, drain.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{Other: []*cobra.Command{newRunCommand(), newKubeletCommand(), newDownCommand(), newDrainCommand()}}
}

func newRunCommand() *cobra.Command {
	var (
		flags config.Flags
		once  onceFlags
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: `Run takes pods from a folder or a URL and keeps their containers running until it is stopped.

Without --container-runtime-endpoint it starts a containerd of its own below the root
directory. Containers and that containerd outlive the agent: stop it, upgrade it and start
it again as you like. 'berth down' is what ends them.`,
		Example: `  # the pods of /etc/berth/manifests
  berth run

  # the pods of another folder, with the state somewhere else
  berth run --manifests ./pods --root-dir /srv/berth

  # with a container runtime that is already there
  berth run --container-runtime-endpoint unix:///run/containerd/containerd.sock

  # one pod to its end, with its logs and its exit code, and nothing left of it
  berth run --once -f job.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			surviveDeadPipe()
			if once.enabled || once.changed(cmd) {
				return once.run(cmd, &flags)
			}
			c, err := loadConfig(cmd, &flags)
			if err != nil {
				return err
			}
			if err := requireRoot("run"); err != nil {
				return err
			}
			log, err := logging.New(cmd.ErrOrStderr(), c.Verbosity)
			if err != nil {
				return err
			}
			defer log.Output.Flush(logging.FlushTimeout)
			return runAgent(cmd, c, log)
		},
	}
	flags.AddTo(cmd.Flags())
	once.addTo(cmd)
	return cmd
}

// runAgent runs the agent in its root directory until the command is interrupted.
func runAgent(cmd *cobra.Command, c *config.Config, log *logging.Logger) error {
	for _, field := range c.NotHonoured {
		log.Warn("the configuration sets a field that berth does not honour yet", "field", field)
	}
	for _, warning := range c.Warnings {
		log.Warn(warning)
	}
	lock, err := rootlock.Acquire(c.RootDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	owner, err := app.ClaimRoot(c, log.Logger)
	if err != nil {
		return err
	}
	return app.Run(cmd.Context(), c, owner, log)
}

// requireRoot returns an error unless the user is root.
func requireRoot(command string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("'berth %s' must run as root, since it starts containers: try 'sudo berth %s'", command, command)
	}
	return nil
}
