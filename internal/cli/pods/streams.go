package pods

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/api/client"
	"berth/internal/api/find"
	"berth/internal/cli/cmdutil"
)

// targetFlags are the flags of commands that open streams into containers.
type targetFlags struct {
	cmdutil.RemoteFlags
	namespace string
	container string
}

func (f *targetFlags) addTo(cmd *cobra.Command) {
	cmdutil.AddNamespaceFlag(cmd, &f.namespace, "namespace of the pod; not needed if only one has that name")
	f.AddTo(cmd)
}

// addContainer adds -c to cmd.
func (f *targetFlags) addContainer(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.container, "container", "c", "", "container of the pod")
	_ = cmd.RegisterFlagCompletionFunc("container", cmdutil.CompleteContainers)
}

// open returns the API of the node that the flags mean, and a function that closes it.
func (f *targetFlags) open(cmd *cobra.Command) (n *client.NodeAPI, closeNode func(), err error) {
	isRemote, err := f.Given(cmd)
	if err != nil {
		return nil, nil, err
	}
	if isRemote {
		n, err := client.NewRemote(f.Remote)
		if err != nil {
			return nil, nil, err
		}
		return n.NodeAPI, n.Close, nil
	}
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return nil, nil, err
	}
	return c.NodeAPI(), c.Close, nil
}

// pod returns the pod that an argument names.
func (f *targetFlags) pod(cmd *cobra.Command, n *client.NodeAPI, arg string) (*v1.Pod, error) {
	filter, err := cmdutil.PodFilter(cmd, f.namespace, []string{arg})
	if err != nil {
		return nil, err
	}
	return n.Pod(cmd.Context(), filter)
}

// target is a container, and the node that it runs on.
type target struct {
	node      *client.NodeAPI
	pod       *v1.Pod
	container string
}

// withTarget calls do with the container of the flags, in the pod that an argument names. Without -c, it takes the
// first container, and says so if there are several.
func (f *targetFlags) withTarget(cmd *cobra.Command, arg string, do func(target) error) error {
	n, closeNode, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer closeNode()
	p, err := f.pod(cmd, n, arg)
	if err != nil {
		return err
	}
	container, missing := find.Container(p, f.container)
	if missing != nil {
		return missing
	}
	if all := find.Containers(p); f.container == "" && len(all) > 1 {
		cmd.PrintErrf("Defaulted container %q out of: %s\n", container, strings.Join(all, ", "))
	}
	return do(target{node: n, pod: p, container: container})
}

// terminalFlags are -i and -t.
type terminalFlags struct{ stdin, tty bool }

func (f *terminalFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.stdin, "stdin", "i", false, "pass stdin on to the container")
	cmd.Flags().BoolVarP(&f.tty, "tty", "t", false, "stdin is a terminal")
}

// connect calls stream with the streams of cmd that the flags ask for. While it runs, the terminal is in raw mode:
// keys such as ctrl-c go to the container.
func (f *terminalFlags) connect(cmd *cobra.Command, stream func(remotecommand.StreamOptions) error) error {
	s := remotecommand.StreamOptions{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Tty: f.tty}
	if f.stdin {
		s.Stdin = cmd.InOrStdin()
	}
	if f.tty {
		terminal, ok := s.Stdin.(*os.File)
		if !ok || !term.IsTerminal(int(terminal.Fd())) {
			cmd.PrintErrln("stdin is not a terminal, or -i is missing: going on without one")
			s.Tty = false
		} else {
			before, err := term.MakeRaw(int(terminal.Fd()))
			if err != nil {
				return fmt.Errorf("prepare the terminal: %w", err)
			}
			defer func() { _ = term.Restore(int(terminal.Fd()), before) }()
			w := newSizeQueue(cmd, terminal)
			defer w.stop()
			s.TerminalSizeQueue = w
		}
	}
	return toExitError(cmd, stream(s))
}

// toExitError turns the exit code of a command in a container, or an interrupt, into that of berth.
func toExitError(cmd *cobra.Command, err error) error {
	var exit *client.ExitError
	switch {
	case errors.As(err, &exit):
		return &cmdutil.ExitError{Code: exit.Code}
	case cmd.Context().Err() != nil:
		return &cmdutil.ExitError{Code: cmdutil.Interrupted}
	}
	return err
}

// sizeQueue returns the size of a terminal at the beginning, and after each SIGWINCH.
type sizeQueue struct {
	terminal *os.File
	changed  chan os.Signal
	done     <-chan struct{}
}

func newSizeQueue(cmd *cobra.Command, terminal *os.File) *sizeQueue {
	w := &sizeQueue{terminal: terminal, changed: make(chan os.Signal, 1), done: cmd.Context().Done()}
	w.changed <- unix.SIGWINCH // for the first size
	signal.Notify(w.changed, unix.SIGWINCH)
	return w
}

// Next implements remotecommand.TerminalSizeQueue.
func (w *sizeQueue) Next() *remotecommand.TerminalSize {
	for {
		select {
		case _, more := <-w.changed:
			if !more {
				return nil
			}
		case <-w.done:
			return nil
		}
		width, height, err := term.GetSize(int(w.terminal.Fd()))
		if err == nil {
			return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)} //nolint:gosec // the kernel has 16 bits for each
		}
	}
}

func (w *sizeQueue) stop() {
	signal.Stop(w.changed)
	close(w.changed)
}
