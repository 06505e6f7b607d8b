package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/cli/clitest"
)

func TestANodeOnTheNetwork(t *testing.T) {
	web := clitest.RunningPod("x", "web", "app")
	mux := http.NewServeMux()
	for path, value := range map[string]any{
		"/pods": v1.PodList{Items: []v1.Pod{*web, *clitest.RunningPod("y", "other", "app")}},
		"/stats/summary": stats.Summary{
			Node: stats.NodeStats{NodeName: "node-1", CPU: &stats.CPUStats{UsageNanoCores: new(uint64(250e6))}, Memory: &stats.MemoryStats{WorkingSetBytes: new(uint64(64 << 20))}},
			Pods: []stats.PodStats{{PodRef: stats.PodReference{Namespace: "x", Name: web.Name, UID: string(web.UID)}, CPU: &stats.CPUStats{UsageNanoCores: new(uint64(5e6))}}},
		},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(value) })
	}
	mux.HandleFunc("/containerLogs/x/web-node-1/app", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) })
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	dir := clitest.NewRootDir(t)
	run := func(command string) clitest.Result {
		var out, stderr strings.Builder
		code := clitest.Execute(t.Context(), root, &out, &stderr, append(strings.Fields(command), "--root-dir", dir)...)
		return clitest.Result{Code: code, Out: out.String(), Stderr: stderr.String()}
	}

	// What the API of every kubelet has is shown,
	for command, want := range map[string][]string{
		"get pods -A": {"NAMESPACE", "web-node-1 ", "other-node-1 ", " 1/1 ", " Running "},
		"get pods web -o jsonpath={.status.podIP}": {"10.0.0.7"},
		"describe pod web":                         {"web-node-1\n", "localhost/app:1", "Events:", "<not in the node API: see 'kubectl describe pod web-node-1 -n x'"},
		"logs web --tail 3":                        {"tailLines=3"},
		"top pods -n x":                            {"web-node-1 ", " 5m "},
		"top node":                                 {"node-1 ", " 250m ", "64Mi", "<unknown>"},
	} {
		got := run(command + " --insecure-skip-tls-verify --server " + s.URL)
		for _, w := range want {
			if got.Code != 0 || !strings.Contains(got.Out, w) {
				t.Errorf("berth %s: there is no %q in %+v", command, w, got)
			}
		}
	}
	// and of the rest it is said where it is.
	for command, want := range map[string]string{
		"get pods -w":            "the node API can't be watched: leave out --watch, or watch the cluster with 'kubectl get pods -A -w",
		"get events":             "the node API does not have what 'berth get events' needs: run it on the machine itself, as in 'ssh NODE berth get events', or ask the cluster with 'kubectl get events -A'",
		"get node":               "'kubectl get node NODE'",
		"get images":             "'kubectl get node NODE -o",
		"get volumes":            "'kubectl describe pod POD'",
		"describe node":          "'kubectl describe node NODE'",
		"drain":                  "'kubectl drain NODE'",
		"debug web --image x":    "'kubectl debug POD --image IMAGE'",
		"waterfall web":          "as in 'ssh NODE berth waterfall' (see",
		"logs web --server= --x": "unknown flag: --x",
		"logs web --server=":     `the server is ""`,
	} {
		got := run(command + " --server " + s.URL)
		if strings.Contains(command, "--server") {
			got = run(command)
		}
		if got.Code != 1 || got.Out != "" || !strings.Contains(got.Stderr, want) {
			t.Errorf("berth %s: want %q, got %+v", command, want, got)
		}
	}
	if got := run("get pods --client-key x"); got.Code != 1 || !strings.Contains(got.Stderr, "--client-key is for --server, which is not given") {
		t.Errorf("got %+v", got)
	}
}
