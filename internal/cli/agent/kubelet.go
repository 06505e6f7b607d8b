package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/version"

	"berth/internal/config"
	"berth/internal/config/kubelet"
	"berth/internal/host/kernel"
	"berth/internal/lib/logging"
	"berth/internal/lib/run"
)

// KubeletName is the name of the program under which berth takes the place of a kubelet, and of the command that does
// the same.
const KubeletName = "kubelet"

func newKubeletCommand() *cobra.Command {
	return &cobra.Command{
		Use:   KubeletName + " [flags of a kubelet]",
		Short: "Run the agent in place of a kubelet",
		Long: `Kubelet runs the agent with the command line, the configuration, the defaults and the places of a kubelet. So does
berth itself if it is started under the name kubelet, by a link.`,
		Example: `  berth kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml

  # all flags
  berth kubelet --help`,
		DisableFlagParsing: true, // the flags are the kubelet's
		ValidArgsFunction:  cobra.NoFileCompletions,
		RunE:               runKubelet,
	}
}

func runKubelet(cmd *cobra.Command, args []string) error {
	surviveDeadPipe()
	line, err := kubelet.Parse(args)
	if err != nil {
		return fmt.Errorf("%w (see 'kubelet --help')", err)
	}
	if line.Help {
		_, err := fmt.Fprint(cmd.OutOrStdout(), line.HelpText())
		return err
	}
	if asked, raw := line.Version(); asked {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), kubeletVersion(raw))
		return err
	}
	c, err := loadKubelet(line)
	if err != nil {
		return err
	}
	if err := requireRoot(KubeletName); err != nil {
		return err
	}
	c.Version = cmd.Root().Version
	newLog := logging.New
	if c.LogJSON {
		newLog = logging.NewJSON
	}
	log, err := newLog(cmd.ErrOrStderr(), c.Verbosity)
	if err != nil {
		return err
	}
	defer log.Output.Flush(logging.FlushTimeout)
	if file := line.String("lock-file"); file != "" {
		log.Info("waiting for the lock of --lock-file", "file", file)
		lock, err := lockFile(cmd.Context(), file)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	if c.ProtectKernel {
		if err := kernel.CheckSysctls(kernel.Sysctls); err != nil {
			return err
		}
	} else {
		kernel.SetSysctls(kernel.Sysctls, log.Logger)
	}
	kernel.SetMaxOpenFiles(c.MaxOpenFiles, log.Logger)
	if c.ProfileContention {
		runtime.SetBlockProfileRate(1)
	}
	for _, dir := range c.KubeletDirs() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a folder of the kubelet: %w", err)
		}
	}
	return runAgent(cmd, c, log)
}

// loadKubelet returns the settings for a command line on this machine.
func loadKubelet(line *kubelet.CommandLine) (*config.Config, error) {
	swap, err := kernel.SwapInUse()
	if err != nil {
		return nil, err
	}
	v1, err := kernel.CgroupV1()
	if err != nil {
		return nil, err
	}
	options, err := kubelet.Load(line, kubelet.Machine{Swap: swap, CgroupV1: v1})
	if err != nil {
		return nil, err
	}
	m, err := config.ThisMachine()
	if err != nil {
		return nil, err
	}
	return config.LoadKubelet(options, m)
}

// kubeletVersion is what 'kubelet --version' prints, or in the raw form 'kubelet --version=raw'.
func kubeletVersion(raw bool) string {
	if !raw {
		return "Kubernetes " + kubelet.Version
	}
	numbers := strings.SplitN(strings.TrimPrefix(kubelet.Version, "v"), ".", 3)
	return fmt.Sprintf("%#v", version.Info{
		Major: numbers[0], Minor: numbers[1], GitVersion: kubelet.Version,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}

// lockInterval is the time between two attempts to lock a file that another process has locked.
const lockInterval = time.Second

// lockFile locks a file, which it makes if need be, until it is closed. As a kubelet does, it waits for the lock.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open --lock-file: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if err := run.Sleep(ctx, lockInterval); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s, which another process has locked: %w", path, err), file.Close())
		}
	}
}
