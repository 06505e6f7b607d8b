package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/probe"
	"berth/internal/runtime/fake"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/stats"
)

// The runtime tells of pods that are gone already. A search through all pods for each of
// them would make the end of a pod cost more, the more pods there are.
func TestLateEventsShareOneSearch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a node that was searched some time ago
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(10 * time.Second)
		before := n.runtime.Calls("List")

		// when events of a hundred unknown pods come
		for i := range 100 {
			n.agent.Enqueue(t.Context(), pod.UID(fmt.Sprint("gone", i)))
			synctest.Wait()
		}

		// then the runtime is listed at once for the first, and once for all others
		if got := n.runtime.Calls("List") - before; got != 1 {
			t.Errorf("%d lists, want 1", got)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := n.runtime.Calls("List") - before; got != 2 {
			t.Errorf("%d lists, want 2", got)
		}
	})
}

func TestAnUnwantedPodEndsSoonAlsoAmongLateEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(10 * time.Second)
		n.agent.Enqueue(t.Context(), "gone")
		synctest.Wait()

		_, err := n.runtime.RunSandbox(t.Context(), &render.SandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "orphan", Namespace: "default"}, Labels: map[string]string{pod.LabelPodUID: "orphan"},
		}, "")
		must(t, err)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		all, err := n.runtime.List(t.Context())
		must(t, err)
		if len(all) != 1 || all["a"] == nil {
			t.Errorf("want only a, got %v", all)
		}
	})
}

func TestAnEventDuringALongSearchIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(10 * time.Second)
		before := n.runtime.Calls("List")
		release := n.runtime.Hold("List")
		n.agent.Enqueue(t.Context(), "gone")
		time.Sleep(10 * time.Second)
		n.agent.Enqueue(t.Context(), "orphan")
		time.Sleep(10 * time.Second)
		release()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := n.runtime.Calls("List") - before; got != 2 {
			t.Errorf("%d lists, want 2", got)
		}
	})
}

func TestOrphansAreCountedUntilTheyAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given the directory of a pod that no source has, in which something is that can't be removed
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "pods", "lost"), 0o755))
		n := newNode(t, fake.New(testImage), dir, &fake.Probes{}, &probe.Manager{})
		var stuck atomic.Bool
		stuck.Store(true)
		n.removeDir = func(dir string) error {
			if stuck.Load() && filepath.Base(dir) == "lost" {
				return errors.New("busy")
			}
			return os.RemoveAll(dir)
		}
		n.core.Start(n.snapshots)
		defer n.stop()

		// when it is found again and again
		n.wants(webPod("a"))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		wantLine(t, n, "kubelet_orphan_pod_cleaned_volumes 1")
		wantLine(t, n, "kubelet_orphan_pod_cleaned_volumes_errors 1")

		// then it counts until it is gone
		stuck.Store(false)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		wantLine(t, n, "kubelet_orphan_pod_cleaned_volumes 0")
	})
}

// unmeasured is a node whose usage is not measured.
type unmeasured struct{}

func (unmeasured) Read(context.Context, stats.Scope) (*stats.Snapshot, error) {
	return &stats.Snapshot{}, nil
}
func (unmeasured) Claims(context.Context) []stats.Claim { return nil }
func (unmeasured) Logs(context.Context) []stats.Log     { return nil }

func wantLine(t *testing.T, n *node, line string) {
	t.Helper()
	pages, err := metrics.NewPages(metrics.PagesConfig{
		Metrics: n.watcher.Metrics, NodeName: "node", Stats: unmeasured{},
		Counts: func() metrics.Counts { return metrics.Counts{} }, Slots: func() (int, int, int) { return 0, 0, 0 },
	})
	must(t, err)
	answer := httptest.NewRecorder()
	pages.Main().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(answer.Body.String(), "\n"+line+"\n") {
		t.Errorf("/metrics does not have %q", line)
	}
}
