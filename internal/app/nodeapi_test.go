package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/config"
	"berth/internal/core"
	"berth/internal/core/admit"
	"berth/internal/core/agent"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/intake/desired"
	"berth/internal/lib/logging"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/stats"
)

// stuckWorkers hang when a pod is enqueued.
type stuckWorkers struct {
	agent.Workers
	release <-chan struct{}
}

func (w stuckWorkers) Enqueue(pod.UID)              { <-w.release }
func (stuckWorkers) Lives() map[pod.UID]worker.Life { return nil }

func TestHealthIsThatOfTheSyncLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given the API of a node, and its sync loop
		log := slog.New(slog.DiscardHandler)
		nothing := map[pod.UID]*pod.Observed{}
		loop, err := agent.New(agent.Config{
			Node: func() admit.Node { return admit.Node{} }, Log: log, Desired: desired.New(), Statuses: status.NewStore(),
			Events: &fake.Events{}, Upstream: &fake.Upstream{}, Housekeeping: time.Hour,
			InRuntime: func(context.Context) (map[pod.UID]*pod.Observed, error) { return nothing, nil },
			OnDisk:    func() (map[pod.UID]*pod.Observed, error) { return nothing, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		counts, err := metrics.New()
		if err != nil {
			t.Fatal(err)
		}
		pages, err := metrics.NewPages(metrics.PagesConfig{
			Metrics: counts, NodeName: "one", Stats: &stats.Reader{}, Counts: func() metrics.Counts { return metrics.Counts{} },
			Slots: func() (taken, free, waiting int) { return 0, 0, 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		c := &config.Config{NodeName: "one"}
		c.API.StreamIdle, c.API.Debugging, c.API.DebugFlags = time.Hour, true, true
		logs := logging.To(io.Discard)
		defer func() { _ = logs.SetVerbosity(0) }() // all tests share that of libraries
		api, err := newNodeAPIServer(&podRunner{
			deps: &deps{config: c, log: log}, core: &core.Core{Loop: &core.Loop{Agent: loop}}, stats: &nodeStats{counts: counts, pages: pages},
		}, nil, logs)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = api.Close() }()
		ask := func(method, path, body string) int {
			answer := httptest.NewRecorder()
			api.Local().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
			return answer.Code
		}
		want := func(when string, code int) {
			t.Helper()
			if got := ask(http.MethodGet, "/healthz", ""); got != code {
				t.Errorf("%s: got %d, want %d", when, got, code)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		release, ended := make(chan struct{}), make(chan struct{})

		want("before the loop begins", http.StatusInternalServerError)
		go func() {
			loop.Run(ctx, stuckWorkers{release: release}, nil)
			close(ended)
		}()
		want("while it goes round", http.StatusOK)
		if code := ask(http.MethodGet, "/healthz/log", ""); code != http.StatusOK {
			t.Errorf("the log: got %d", code)
		}
		if code := ask(http.MethodPut, "/debug/flags/v", "6"); code != http.StatusOK || !logs.Enabled(t.Context(), -6) || logs.Enabled(t.Context(), -7) {
			t.Errorf("the verbosity: got %d, and another level than -6", code)
		}
		// when it is stuck, then the node is not well, until it goes on
		loop.EnqueueAt("a", time.Now())
		synctest.Wait()
		want("while it is stuck", http.StatusInternalServerError)
		close(release)
		want("when it goes on", http.StatusOK)
		cancel()
		<-ended
		want("after its end", http.StatusInternalServerError)
	})
}
