package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/cli/clitest"
	"berth/internal/cli/cmdutil"
)

func kubeletRoot() *cobra.Command { return cmdutil.NewRoot("v0", Commands()) }

func TestTheKubeletsVersion(t *testing.T) {
	for args, want := range map[string]string{"--version": "Kubernetes v1.36.3\n", "--version=raw": `version.Info{Major:"1", Minor:"36"`} {
		if got := clitest.Run(t, kubeletRoot, "", "kubelet", args); got.Code != 0 || !strings.HasPrefix(got.Out, want) || got.Stderr != "" {
			t.Errorf("%s: got %+v", args, got)
		}
	}
	got := clitest.Run(t, kubeletRoot, "", "kubelet", "-h")
	if got.Code != 0 || !strings.Contains(got.Out, "--cgroup-driver string") || got.Stderr != "" {
		t.Errorf("help: got %+v", got)
	}
}

func TestMistakesOnTheKubeletsCommandLine(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nport: many\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--max-pod=3":               "error: unknown flag: --max-pod; did you mean --max-pods? (see 'kubelet --help')\n",
		"--config=" + config:        "error: configuration file " + config + ":3: port: must be a whole number",
		"--config=/nonexistent":     "error: configuration file /nonexistent: ",
		"--feature-gates=MemoryQos": "error: invalid argument",
		"run":                       "error: unknown command run",
		"--exit-on-lock-contention --fail-cgroupv1=false --fail-swap-on=false": "error: --exit-on-lock-contention: a second agent",
	} {
		if got := clitest.Run(t, kubeletRoot, "", append([]string{"kubelet"}, strings.Fields(args)...)...); got.Code != 1 || !strings.HasPrefix(got.Stderr, want) || strings.Count(got.Stderr, "\n") != 1 {
			t.Errorf("%s: got %+v, want %q", args, got, want)
		}
	}
}

func TestALockFileIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		first, err := lockFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := lockFile(ctx, path); err == nil {
			t.Fatal("two have the lock")
		}
		time.AfterFunc(5*time.Second, func() { first.Close() })
		second, err := lockFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		second.Close()
	})
}
