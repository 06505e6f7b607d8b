package nodes

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/config"
	"berth/internal/host/doctor"
	"berth/internal/host/rootlock"
	"berth/internal/lib/table"
)

// agentTimeout is how long 'doctor' waits for an answer of the agent.
const agentTimeout = 5 * time.Second

// doctorFlags are the flags of 'doctor'.
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
			documents, err := cmdutil.DocumentPrinter(cmd, flags.output)
			if err != nil {
				return err
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
				err = &cmdutil.ExitError{Code: 1} // the findings are printed already
			}
			return err
		},
	}
	cmd.Flags().StringVar(&flags.endpoint, "container-runtime-endpoint", "", "socket of the container runtime that is to be used (default: the bundled one)")
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "", "also find out whether the API server of this file can be reached")
	cmdutil.AddDocumentFlag(cmd, &flags.output)
	return cmd
}

// machine returns this machine, with the agent of the root directory and the API server of the kubeconfig.
func (f *doctorFlags) machine(cmd *cobra.Command) (doctor.Machine, error) {
	root, err := filepath.Abs(cmdutil.RootDir(cmd))
	if err != nil {
		return doctor.Machine{}, fmt.Errorf("find the root directory: %w", err)
	}
	libexec, err := config.LibexecDir()
	if err != nil {
		return doctor.Machine{}, err
	}
	m, err := doctor.ThisMachine()
	if err != nil {
		return doctor.Machine{}, err
	}
	m.BerthRoot, m.Libexec, m.Endpoint = root, libexec, f.endpoint
	m.Ports = []doctor.Port{{Number: 10250, Use: "the node's API"}, {Number: 10248, Use: "its health"}}
	m.AgentUp = sync.OnceValue(func() error { return agentUp(cmd) })
	m.AgentPID = func() int { return rootlock.Holder(root) }
	if m.Ports, err = agentPorts(root, f.kubeconfig); err != nil {
		return doctor.Machine{}, err
	}
	if f.kubeconfig != "" {
		m.Cluster = func() error { return doctor.ReachAPIServer(cmd.Context(), f.kubeconfig) }
	}
	return m, nil
}

// agentPorts are the ports on which the agent of a root directory listened last, or would
// listen by default: with or without a cluster.
func agentPorts(root, kubeconfig string) ([]doctor.Port, error) {
	c, err := config.LoadSaved(root)
	if c == nil || err != nil || kubeconfig != "" {
		var flags config.Flags
		flags.AddTo(pflag.NewFlagSet("", pflag.ContinueOnError)) // for their defaults
		flags.Kubeconfig = kubeconfig
		if c, err = config.LoadOnHost(root, flags, nil); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc([]doctor.Port{
		{Number: c.API.Port, Use: "the node's API"},
		{Number: c.API.ReadOnlyPort, Use: "the part of it that all may read"},
		{Number: c.API.HealthzPort, Use: "its health"},
	}, func(p doctor.Port) bool { return p.Number == 0 }), nil
}

func agentUp(cmd *cobra.Command) error {
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), agentTimeout)
	defer cancel()
	_, err = c.Version(ctx)
	return err
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
