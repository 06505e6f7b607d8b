package app

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"berth/internal/config"
	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
	"berth/internal/lib/logging"
	"berth/internal/lib/pod"
)

const unreachableCluster = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// All parts can be made, started and stopped while neither the runtime nor the API server answers.
func TestTheAgentIsComposedWithoutARuntime(t *testing.T) {
	for name, inCluster := range map[string]bool{"standalone": false, "in a cluster": true} {
		t.Run(name, func(t *testing.T) {
			// given a root directory, and a runtime that is not there
			root := t.TempDir()
			var flags config.Flags
			flags.AddTo(pflag.NewFlagSet("", pflag.ContinueOnError))
			c, err := config.LoadOnHost(root, flags, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.RuntimeEndpoint, c.CgroupRoot = "unix://"+filepath.Join(root, "none.sock"), "/none"
			c.ManifestDir = filepath.Join(root, "manifests")
			if inCluster {
				c.Cluster.Kubeconfig = filepath.Join(root, "kubeconfig")
				if err := os.WriteFile(c.Cluster.Kubeconfig, []byte(unreachableCluster), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			owner := rootstest.Owner(t, roots.Claim{Root: root, CgroupRoot: c.CgroupRoot, Runtime: c.RuntimeEndpoint})
			logs := logging.To(io.Discard)

			// when the agent is composed
			a := composeForTest(t, c, owner, logs)
			n := a.runner

			// then it starts, answers, and stops
			n.start(make(chan pod.Snapshot))
			defer n.stop()
			if got := len(a.sources); inCluster != (got == 2) {
				t.Errorf("%d sources", got)
			}
			answer := httptest.NewRecorder()
			a.nodeAPI.Local().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if answer.Code != http.StatusOK {
				t.Errorf("got %d: %s", answer.Code, answer.Body)
			}
			inventory, err := newInventory(n, a.shutdown.manager.Closed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := inventory.Node(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func composeForTest(t *testing.T, c *config.Config, owner roots.Owner, logs *logging.Logger) *daemon {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	state, err := newAgentState(logs.Logger)
	must(err)
	telemetry, _, err := newTelemetry(ctx, c, logs.Logger)
	must(err)
	member, err := newMembership(c, telemetry.Metrics.ClientRenewFailed, logs.Logger)
	must(err)
	rt, err := newContainerRuntime(c, owner, state.Keeper, logs.Logger)
	must(err)
	client, err := rt.connect(c, telemetry)
	must(err)
	t.Cleanup(func() { _ = client.Close() })
	a, err := compose(ctx, depsConfig{config: c, runtime: rt, client: client, member: member, state: state, telemetry: telemetry, log: logs.Logger}, logs)
	must(err)
	t.Cleanup(func() { _ = a.nodeAPI.Close() })
	return a
}
