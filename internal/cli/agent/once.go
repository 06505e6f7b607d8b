package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/app"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/manifests"
	"berth/internal/config"
	"berth/internal/host/rootlock"
	"berth/internal/host/roots"
	"berth/internal/lib/logging"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// 'berth run --once' runs one pod from its start to its end, and removes everything of it. It is
// an agent like any other, with a folder that holds one manifest, and a root directory, a network
// and a cgroup of its own: other agents of the machine are not affected.

// Exit codes of 'run --once' other than those of the pod: 125 as docker run has it, and 124 as timeout(1).
const (
	exitCannotRun = 125 // the pod could not be run
	exitTimeout   = 124
)

const (
	onceDownTimeout = 2 * time.Minute
	// onceStopMargin is added to the grace period of a pod that is stopped.
	onceStopMargin = 15 * time.Second
)

// onceFlags are the flags of 'run' that go with --once.
type onceFlags struct {
	enabled  bool
	manifest string
	images   string
	timeout  time.Duration
}

func (o *onceFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.enabled, "once", false, "run the pod of -f to its end, print its logs, and exit with its code")
	f.StringVarP(&o.manifest, "filename", "f", "", "with --once: manifest of the pod, or - for stdin")
	f.StringVar(&o.images, "images", "", "with --once: folder with archives of images that the pod needs")
	f.DurationVar(&o.timeout, "timeout", 0, "with --once: stop the pod if it has not ended by then; 0 is never")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	_ = cmd.MarkFlagDirname("images")
}

// changed reports whether the command line has one of the flags that go with --once.
func (o *onceFlags) changed(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("filename") || cmd.Flags().Changed("images") || cmd.Flags().Changed("timeout")
}

// check refuses a command line that makes no sense.
func (o *onceFlags) check(cmd *cobra.Command) error {
	if !o.enabled {
		return cmdutil.UsageError(cmd, "-f, --images and --timeout go with --once: the manifests of an agent are in the folder of --manifests")
	}
	for _, name := range []string{"manifests", "manifest-url", "kubeconfig", "bootstrap-kubeconfig", "container-runtime-endpoint", "image-service-endpoint"} {
		if cmd.Flags().Changed(name) {
			return cmdutil.UsageError(cmd, "--once and --"+name+" exclude each other: its one pod is that of -f, on a runtime of its own")
		}
	}
	switch {
	case o.manifest == "":
		return cmdutil.UsageError(cmd, "say what to run with -f: a manifest, or - for stdin")
	case o.timeout < 0:
		return cmdutil.UsageError(cmd, fmt.Sprintf("--timeout is %s, and can't be below 0", o.timeout))
	}
	return nil
}

// run runs the pod of the manifest, and ends with its exit code.
func (o *onceFlags) run(cmd *cobra.Command, flags *config.Flags) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	code, err := o.runPod(cmd, flags)
	if err != nil || code != 0 {
		return &cmdutil.ExitError{Code: code, Err: err}
	}
	return nil
}

func (o *onceFlags) runPod(cmd *cobra.Command, flags *config.Flags) (code int, err error) {
	manifest, err := o.readPod(cmd)
	if err != nil {
		return exitCannotRun, err
	}
	if err := requireRoot("run --once"); err != nil {
		return exitCannotRun, err
	}
	root, err := newOnceRoot(cmd)
	if err != nil {
		return exitCannotRun, err
	}
	defer func() { err = errors.Join(err, root.remove()) }()
	flags.Manifests = filepath.Join(root.dir, "once")
	c, err := loadConfig(cmd, flags)
	if err != nil {
		return exitCannotRun, err
	}
	log, err := onceLogging(cmd, c.Verbosity)
	if err != nil {
		return exitCannotRun, err
	}
	isolate(c, cmd.Flags().Changed("pod-cidr"))
	lock, err := rootlock.Acquire(c.RootDir)
	if err != nil {
		return exitCannotRun, err
	}
	defer lock.Release()
	owner, err := app.ClaimRoot(c, log.Logger)
	if err != nil {
		return exitCannotRun, err
	}
	if err := o.prepare(c, manifest); err != nil {
		return exitCannotRun, err
	}
	defer func() { err = errors.Join(err, o.unlinkImages(c.RootDir)) }()
	code, err = o.runAgent(cmd, c, owner, log)

	// A pod that has ended still has containers and directories to be removed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), onceDownTimeout)
	defer cancel()
	if downErr := app.Down(ctx, c, app.OwnGrace, log.Logger); downErr != nil {
		root.keep = true
		return exitCannotRun, errors.Join(err, fmt.Errorf("remove what is left of the pod: %w; try 'berth down --root-dir %s'", downErr, c.RootDir))
	}
	return code, err
}

// readPod reads the manifest, and refuses a pod that never ends.
func (o *onceFlags) readPod(cmd *cobra.Command) ([]byte, error) {
	manifest, p, err := manifests.ReadOnePod(cmd, o.manifest)
	if err == nil && p.Spec.RestartPolicy == v1.RestartPolicyAlways {
		err = fmt.Errorf("pod %s would never end, since it is restarted always: set spec.restartPolicy to Never or OnFailure", p.Name)
	}
	return manifest, err
}

// onceLogging returns a logger that leaves stderr to the pod: it logs errors only, unless -v is given.
func onceLogging(cmd *cobra.Command, verbosity int) (*logging.Logger, error) {
	log, err := logging.New(cmd.ErrOrStderr(), verbosity)
	if err == nil && verbosity == 0 {
		log.ErrorsOnly()
	}
	return log, err
}

// runAgent runs an agent until its pod has ended.
func (o *onceFlags) runAgent(cmd *cobra.Command, c *config.Config, owner roots.Owner, log *logging.Logger) (code int, err error) {
	// The agent goes on after an interrupt: it has to stop the pod.
	ctx, fail := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
	defer fail(nil)
	defer log.Output.Flush(logging.FlushTimeout)
	group := run.NewGroup(ctx, log.Logger)
	defer group.Stop()
	group.Go("agent", func(ctx context.Context) {
		if err := app.Run(ctx, c, owner, log); err != nil {
			fail(err)
		}
	})
	until := cmd.Context()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(until, o.timeout)
		defer cancel()
	}
	f, err := newFollower(cmd, c.RootDir, group)
	if err != nil {
		return exitCannotRun, err
	}
	defer f.close()
	ended, err := f.follow(ctx, until)
	if ended != nil {
		return podExitCode(ended)
	}
	switch {
	case context.Cause(ctx) != nil: // the agent has ended
		return exitCannotRun, context.Cause(ctx)
	case until.Err() == nil:
		return exitCannotRun, err
	}
	if err := os.Remove(onceManifest(c)); err != nil {
		return exitCannotRun, fmt.Errorf("stop the pod: %w", err)
	}
	f.waitUntilGone(ctx)
	if errors.Is(until.Err(), context.DeadlineExceeded) {
		return exitTimeout, fmt.Errorf("the pod had not ended after %s, and was stopped", o.timeout)
	}
	return cmdutil.Interrupted, nil
}

// podExitCode returns the exit code of a pod that has ended: that of its first container
// which failed, or else of its first init container which failed.
func podExitCode(p *v1.Pod) (int, error) {
	if p.Status.Phase == v1.PodSucceeded {
		return 0, nil
	}
	for _, statuses := range [][]v1.ContainerStatus{inSpecOrder(p.Spec.Containers, p.Status.ContainerStatuses), p.Status.InitContainerStatuses} {
		for _, s := range statuses {
			if t := s.State.Terminated; t != nil && t.ExitCode != 0 && p.Status.Reason == "" {
				return int(t.ExitCode), nil
			}
		}
	}
	why := p.Status.Message
	if p.Status.Reason != "" {
		why = p.Status.Reason + ": " + why
	}
	return exitCannotRun, fmt.Errorf("pod %s failed: %s", pod.Ref(p), why)
}

// inSpecOrder returns statuses in the order of the containers in the spec.
func inSpecOrder(containers []v1.Container, statuses []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for _, c := range containers {
		for _, s := range statuses {
			if s.Name == c.Name {
				out = append(out, s)
			}
		}
	}
	return out
}
