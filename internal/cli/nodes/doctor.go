package nodes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth/internal/app"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/config"
	"berth/internal/host/doctor"
	"berth/internal/host/rootlock"
	"berth/internal/lib/table"
)

// doctorTimeout is how long anybody else is waited for.
const doctorTimeout = 5 * time.Second

// doctorFlags are those of 'doctor'.
type doctorFlags struct {
	endpoint   string
	kubeconfig string
	output     string
}

func newDoctorCommand() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine lacks to run pods",
		Long: `Say what this machine lacks to run pods, and how each thing is mended. Nothing is changed.

What is said to fail keeps pods from running. A warning is about something that will not be as expected.
The exit code is 1 if anything fails.`,
		Example: `  berth doctor
  berth doctor --kubeconfig /etc/kubernetes/kubelet.conf
  berth doctor -o json`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := printers.NewObjectPrinter(cmd.OutOrStdout(), flags.output, printers.DocumentFormats())
			if err != nil {
				return cmdutil.UsageError(cmd, err.Error())
			}
			machine, err := flags.machine(cmd)
			if err != nil {
				return err
			}
			findings := doctor.Examine(machine)
			if documents != nil {
				err = documents.Print(findings)
			} else {
				err = printFindings(cmd.OutOrStdout(), findings, cmdutil.StatusPainter(cmd))
			}
			if err == nil && slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.State == doctor.Fail }) {
				err = &cmdutil.ExitError{Code: 1} // what fails was told
			}
			return err
		},
	}
	cmd.Flags().StringVar(&flags.endpoint, "container-runtime-endpoint", "", "socket of the container runtime that is to be used (default: the bundled one)")
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "", "also find out whether the API server of this file can be reached")
	cmdutil.AddOutputFlag(cmd, &flags.output, printers.DocumentFormats())
	return cmd
}

// machine is the one that this process runs on.
func (f *doctorFlags) machine(cmd *cobra.Command) (doctor.Machine, error) {
	root, err := filepath.Abs(cmdutil.RootDir(cmd))
	if err != nil {
		return doctor.Machine{}, fmt.Errorf("find the root directory: %w", err)
	}
	libexec, err := app.LibexecDir()
	if err != nil {
		return doctor.Machine{}, err
	}
	hostname, err := os.Hostname()
	if err != nil {
		return doctor.Machine{}, fmt.Errorf("find out the machine's name: %w", err)
	}
	m := doctor.Machine{
		Files: os.DirFS("/"), UID: os.Geteuid(), BerthRoot: root, Libexec: libexec, Endpoint: f.endpoint, Hostname: hostname,
		LookPath: exec.LookPath, Space: space, ClockSynced: clockSynced, CanLabel: app.CanLabel,
		AgentUp:  sync.OnceValue(func() error { return agentUp(cmd) }),
		AgentPID: func() int { return rootlock.Holder(root) },
	}
	if m.Ports, err = agentPorts(root, f.kubeconfig); err != nil {
		return doctor.Machine{}, err
	}
	if f.kubeconfig != "" {
		m.Cluster = func() error { return reachCluster(cmd.Context(), f.kubeconfig) }
	}
	return m, nil
}

// agentPorts are the ports on which the agent of a root directory listened last, or would
// listen by default: with or without a cluster.
func agentPorts(root, kubeconfig string) ([]doctor.Port, error) {
	c, err := app.SavedSettings(root)
	if c == nil || err != nil || kubeconfig != "" {
		var flags config.Flags
		flags.AddTo(pflag.NewFlagSet("", pflag.ContinueOnError)) // for their defaults
		flags.Kubeconfig = kubeconfig
		if c, err = app.Configuration(root, flags, nil); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc([]doctor.Port{
		{Number: c.API.Port, Use: "the node's API"},
		{Number: c.API.ReadOnlyPort, Use: "the part of it that all may read"},
		{Number: c.API.HealthzPort, Use: "its health"},
	}, func(p doctor.Port) bool { return p.Number == 0 }), nil
}

func space(dir string) (doctor.Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return doctor.Space{}, err
	}
	block := uint64(s.Bsize)
	return doctor.Space{Free: s.Bavail * block, Total: s.Blocks * block, FreeInodes: s.Ffree, TotalInodes: s.Files}, nil
}

// clockSynced asks the kernel whether somebody keeps its clock right.
func clockSynced() (bool, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unix.TIME_ERROR, err
}

func agentUp(cmd *cobra.Command) error {
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), doctorTimeout)
	defer cancel()
	_, err = c.Version(ctx)
	return err
}

// reachCluster asks an API server whether it is there. That it refuses us is an
// answer of another kind.
func reachCluster(ctx context.Context, kubeconfig string) error {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.Host, "/")+"/version", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", c.Host, answer.Status)
	}
	return nil
}

func printFindings(w io.Writer, findings []doctor.Finding, paint table.Painter) error {
	rows := table.Painted(w, paint)
	rows.Row("CHECK", "STATUS", "FOUND", "REMEDY")
	counts := map[doctor.State]int{}
	for _, f := range findings {
		rows.Row(f.Check, string(f.State), f.Found, f.Remedy)
		counts[f.State]++
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	verdict := "pods can run here"
	if counts[doctor.Fail] > 0 {
		verdict = "no pods can run here before what fails is mended"
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %s, %d to be mended: %s\n", counts[doctor.OK], printers.Plural(counts[doctor.Warn], "warning"), counts[doctor.Fail], verdict)
	return err
}
