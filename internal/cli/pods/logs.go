package pods

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
)

// logFlags are the flags of 'logs' that LogRequest has in another form, or not at all.
type logFlags struct {
	cmdutil.RemoteFlags
	all       bool
	since     time.Duration
	sinceTime string
}

func newLogsCommand() *cobra.Command {
	var (
		request client.LogRequest
		flags   logFlags
	)
	cmd := &cobra.Command{
		Use:     "logs POD",
		Aliases: []string{"log"},
		Short:   "Print what a container has written",
		Long: `Print what a container of a pod has written to its stdout and stderr.

POD is the full name of a pod, or its name in the manifest, without the name of the node.
Of a pod with several containers, the first one is taken unless -c names another.`,
		Example: `  berth logs hello
  berth logs hello -f --tail 10
  berth logs hello -c sidecar --since 5m
  berth logs hello --previous
  berth logs hello --all-containers -f
  berth logs hello --server https://node-1:10250 --client-certificate me.crt --client-key me.key --certificate-authority ca.crt`,
		Args:              cmdutil.OnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.read(cmd, args, time.Now(), &request); err != nil {
				return err
			}
			n, err := flags.Node(cmd)
			if err != nil {
				return err
			}
			defer n.Close()
			if flags.all {
				return printAllLogs(cmd, n, request)
			}
			return printLog(cmd, n, request)
		},
	}
	flags.AddTo(cmd)
	f := cmd.Flags()
	f.BoolVarP(&request.Follow, "follow", "f", false, "go on with what is written, until the container ends")
	f.BoolVarP(&request.Previous, "previous", "p", false, "print the log of the container before its last restart")
	f.StringVarP(&request.Container, "container", "c", "", "container of the pod")
	f.BoolVar(&flags.all, "all-containers", false, "print the logs of all containers, with its name before each line")
	f.Int64Var(&request.Tail, "tail", -1, "print only that many of the last lines; -1 prints all")
	f.DurationVar(&flags.since, "since", 0, "print only what is newer than that, such as 30s or 2h")
	f.StringVar(&flags.sinceTime, "since-time", "", "print only what was written since then, such as 2026-01-02T03:04:05Z")
	f.BoolVar(&request.Timestamps, "timestamps", false, "print its time before each line")
	f.Int64Var(&request.LimitBytes, "limit-bytes", 0, "print no more than that many bytes; 0 is no limit")
	cmdutil.AddNamespaceFlag(cmd, &request.Namespace, "namespace of the pod; not needed if only one has that name")
	_ = cmd.RegisterFlagCompletionFunc("container", cmdutil.CompleteContainers)
	for _, name := range []string{"tail", "since", "since-time", "limit-bytes"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// read checks the flags, and completes the request.
func (l *logFlags) read(cmd *cobra.Command, args []string, now time.Time, r *client.LogRequest) error {
	of, err := cmdutil.PodFilter(cmd, r.Namespace, args)
	if err != nil {
		return err
	}
	r.Pod = of.Name
	switch {
	case l.all && r.Container != "":
		return cmdutil.UsageError(cmd, "--container and --all-containers exclude each other")
	case r.Tail < -1:
		return cmdutil.UsageError(cmd, fmt.Sprintf("--tail is %d: give a number of lines, or -1 for all", r.Tail))
	case r.LimitBytes < 0:
		return cmdutil.UsageError(cmd, fmt.Sprintf("--limit-bytes is %d, and can't be below 0", r.LimitBytes))
	case l.since < 0:
		return cmdutil.UsageError(cmd, fmt.Sprintf("--since is %s, and can't be below 0", l.since))
	case l.since > 0 && l.sinceTime != "":
		return cmdutil.UsageError(cmd, "--since and --since-time exclude each other")
	case l.since > 0:
		r.Since = now.Add(-l.since)
	case l.sinceTime != "":
		if r.Since, err = time.Parse(time.RFC3339Nano, l.sinceTime); err != nil {
			return cmdutil.UsageError(cmd, fmt.Sprintf("--since-time is %q: give it as in 2026-01-02T03:04:05Z", l.sinceTime))
		}
	}
	return nil
}

func printLog(cmd *cobra.Command, n client.Node, r client.LogRequest) error {
	log, err := n.Log(cmd.Context(), r)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if len(log.Choice) > 1 {
		cmd.PrintErrf("Defaulted container %q out of: %s\n", log.Container, strings.Join(log.Choice, ", "))
	}
	return endOfLog(r, log.CopyTo(cmd.OutOrStdout()))
}

// endOfLog returns err, or nil if the user interrupted a log that was followed.
func endOfLog(r client.LogRequest, err error) error {
	if r.Follow {
		return cmdutil.UntilInterrupted(err)
	}
	return err
}
