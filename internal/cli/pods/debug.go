package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/api/client"
	"berth/internal/api/find"
	"berth/internal/cli/cmdutil"
	"berth/internal/lib/pod"
)

// debugFlags are the flags of 'debug'.
type debugFlags struct {
	node     targetFlags // only the namespace
	terminal terminalFlags
	image    string
	name     string
	target   string
}

func newDebugCommand() *cobra.Command {
	var flags debugFlags
	cmd := &cobra.Command{
		Use:   "debug POD --image IMAGE [-- COMMAND [ARG...]]",
		Short: "Look into a running pod from a container of its own",
		Long: `Add a container to a running pod, to look into it with what the containers of the pod lack.
It shares the network of the pod and, with --target, sees the processes of a container (and
its files below /proc/1/root).

It is there until it ends, or the pod does. With -i, berth connects to it, and ends with its exit
code. Pods of an API server are for 'kubectl debug'.`,
		Example: `  berth debug hello --image localhost/tools:1 -it -- sh
  berth debug hello --image localhost/tools:1 --target app -- tcpdump -w /tmp/trace`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case len(args) == 0 || at == 0:
				return cmdutil.UsageError(cmd, "give the name of one pod")
			case len(args) > 1 && at != 1:
				return cmdutil.UsageError(cmd, "put -- between the pod and the command, as in 'berth debug "+args[0]+" --image IMAGE -- sh'")
			}
			return nil
		},
		ValidArgsFunction: cmdutil.CompletePods,
		RunE:              func(cmd *cobra.Command, args []string) error { return flags.debug(cmd, args[0], args[1:]) },
	}
	cmdutil.AddNamespaceFlag(cmd, &flags.node.namespace, "namespace of the pod; not needed if only one has that name")
	flags.terminal.addTo(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.image, "image", "", "image of the new container")
	f.StringVarP(&flags.name, "container", "c", "", "name of the new container; by default one is made up")
	f.StringVar(&flags.target, "target", "", "container whose processes the new one sees")
	_ = cmd.RegisterFlagCompletionFunc("target", cmdutil.CompleteContainers)
	for _, name := range []string{"image", "container"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func (f *debugFlags) debug(cmd *cobra.Command, arg string, command []string) error {
	switch {
	case f.image == "":
		return cmdutil.UsageError(cmd, "say what to run: give --image")
	case f.name == "":
		f.name = "debugger-" + rand.String(5)
	case len(validation.IsDNS1123Label(f.name)) > 0:
		return cmdutil.UsageError(cmd, fmt.Sprintf("%q is not the name of a container", f.name))
	}
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	n := c.NodeAPI()
	p, err := f.node.pod(cmd, n, arg)
	if err != nil {
		return err
	}
	if f.target != "" {
		if _, missing := find.Container(p, f.target); missing != nil {
			return missing
		}
	}
	err = c.Debug(cmd.Context(), p, v1.EphemeralContainer{
		TargetContainerName: f.target,
		EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: f.name, Image: f.image, Command: command, TTY: f.terminal.tty,
			Stdin: f.terminal.stdin, StdinOnce: f.terminal.stdin, // it ends with the first client of its stdin
		},
	})
	if err != nil {
		return err
	}
	name := find.ManifestName(p)
	if !f.terminal.stdin {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "container %s starts in pod %s; see 'berth logs %s -c %s'\n", f.name, name, name, f.name)
		return err
	}
	cmd.PrintErrf("container %s starts in pod %s; if you see no prompt, press enter\n", f.name, name)
	return f.attach(cmd, c, p)
}

// attach waits until the new container runs, connects to it, and returns its exit code.
func (f *debugFlags) attach(cmd *cobra.Command, c *client.Client, p *v1.Pod) error {
	p, err := c.Started(cmd.Context(), p, f.name)
	if err != nil {
		return err
	}
	if pod.ContainerSpec(p, f.name) == nil {
		return fmt.Errorf("pod %s no longer has container %s", find.ManifestName(p), f.name)
	}
	if find.Status(p, f.name).State.Running != nil {
		err = f.terminal.connect(cmd, func(s remotecommand.StreamOptions) error {
			s.Tty = f.terminal.tty
			return c.NodeAPI().Attach(cmd.Context(), p, f.name, s)
		})
	} else { // it has ended already
		err = printLog(cmd, c, client.LogRequest{Namespace: p.Namespace, Pod: p.Name, Container: f.name, Tail: -1})
	}
	if exit := (*cmdutil.ExitError)(nil); errors.As(err, &exit) {
		return err
	}
	return f.exitCode(cmd, c, p, err)
}

// exitTimeout is how long the agent may take to notice that a container ended.
const exitTimeout = 5 * time.Second

// exitCode returns the exit code of the container as an error, or otherwise if it has not ended within exitTimeout.
func (f *debugFlags) exitCode(cmd *cobra.Command, c *client.Client, p *v1.Pod, otherwise error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), exitTimeout)
	defer cancel()
	s, err := c.Ended(ctx, p, f.name)
	if err != nil {
		return otherwise
	}
	if s.ExitCode != 0 {
		return &cmdutil.ExitError{Code: int(s.ExitCode)}
	}
	return nil
}
