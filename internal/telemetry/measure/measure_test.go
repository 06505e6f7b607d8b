package measure

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/core/agent"
	"berth/internal/core/execute"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/pods/probe"
	"berth/internal/runtime/image"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/stats"
	"berth/internal/telemetry/waterfall"
)

var (
	_ execute.Telemetry = (*Recorder)(nil)
	_ agent.Metrics     = (*Recorder)(nil)
)

// idle is a node that uses nothing.
type idle struct{}

func (idle) Read(context.Context, stats.Scope) (*stats.Snapshot, error) {
	return &stats.Snapshot{}, nil
}
func (idle) Claims(context.Context) []stats.Claim { return nil }
func (idle) Logs(context.Context) []stats.Log     { return nil }

// watcher returns one, and what its pages say.
func watcher(t *testing.T) (*Recorder, func() string) {
	t.Helper()
	m, err := metrics.New()
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Metrics: m, Waterfalls: waterfall.New(10)})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := metrics.NewPages(metrics.PagesConfig{
		Metrics: m, NodeName: "box", Stats: idle{},
		Counts: func() metrics.Counts { return metrics.Counts{UIDs: map[pod.UID]bool{"1": true}} },
		Slots:  func() (int, int, int) { return 0, 0, 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, func() string {
		all := httptest.NewRecorder()
		pages.Main().ServeHTTP(all, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		pages.Probes().ServeHTTP(all, httptest.NewRequest(http.MethodGet, "/metrics/probes", nil))
		return all.Body.String()
	}
}

func web(seen time.Time) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "web", "shop", "1"
	p.CreationTimestamp = metav1.NewTime(seen)
	p.Annotations = map[string]string{pod.AnnotationSeen: seen.Format(time.RFC3339Nano), pod.AnnotationSource: pod.SourceFile}
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	return p
}

func ready() *v1.PodStatus {
	return &v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
}

func lines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
}

func TestAStartIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, text := watcher(t)
		p := web(time.Now())
		time.Sleep(time.Second)

		// Given a pod that has to wait for its image for two seconds,
		w.Starting(p)
		w.Phase(p, waterfall.Pull, "app")
		time.Sleep(2 * time.Second)
		w.Starting(p)
		w.Phase(p, waterfall.Pull, "app")(nil)
		for phase, what := range map[string]string{waterfall.Queue: "", waterfall.Sandbox: "gvisor"} {
			end := w.Phase(p, phase, what)
			time.Sleep(time.Second)
			end(nil)
		}
		w.Phase(p, waterfall.Create, "app")(nil)
		end := w.Phase(p, waterfall.Start, "app")
		time.Sleep(time.Second)
		end(nil)

		// when it is ready,
		w.StatusChanged(p, &v1.PodStatus{Phase: v1.PodPending})
		time.Sleep(4 * time.Second)
		w.StatusChanged(p, ready())
		w.StatusChanged(p, ready())

		// then all of it was counted, once.
		lines(t, text(),
			`berth_pod_start_phase_seconds_sum{phase="pull"} 2`, `berth_pod_start_phase_seconds_count{phase="pull"} 1`,
			`berth_pod_start_phase_seconds_sum{phase="queue"} 1`, `berth_pod_start_phase_seconds_sum{phase="ready"} 4`,
			`berth_start_wait_seconds_sum 1`, `kubelet_run_podsandbox_duration_seconds_sum{runtime_handler="gvisor"} 1`,
			`kubelet_started_pods_total 1`, `kubelet_started_containers_total{container_type="container"} 1`,
			`kubelet_pod_worker_start_duration_seconds_sum 1`,
			`kubelet_pod_start_duration_seconds_sum 6`, `kubelet_pod_start_sli_duration_seconds_sum 4`,
		)
		fall, ok := w.Waterfall("1")
		if !ok || !fall.Done || len(fall.Phases) != 6 || fall.Phases[0].Name != "pull" || fall.Phases[0].Container != "app" {
			t.Errorf("the waterfall is %+v", fall)
		}
		w.Gone("1")
		if _, ok := w.Waterfall("1"); ok {
			t.Error("the waterfall of a pod that is gone is kept")
		}
	})
}

func TestWhatFailsIsCounted(t *testing.T) {
	w, text := watcher(t)
	p := web(time.Now())
	p.Spec.InitContainers = []v1.Container{{Name: "init"}}
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	w.Starting(p)

	w.Phase(p, waterfall.Sandbox, "")(errors.New("no network"))
	w.StartFailed(p, "app", "RunContainerError")
	w.StartFailed(p, "init", "CreateContainerError")
	w.StartFailed(p, "debug", "CreateContainerError")

	lines(t, text(),
		`kubelet_started_pods_errors_total 1`, `kubelet_run_podsandbox_errors_total{runtime_handler=""} 1`,
		`kubelet_started_containers_errors_total{code="RunContainerError",container_type="container"} 1`,
		`kubelet_started_containers_errors_total{code="CreateContainerError",container_type="init_container"} 1`,
		`kubelet_started_containers_errors_total{code="CreateContainerError",container_type="ephemeral_container"} 1`,
	)
	if strings.Contains(text(), `berth_pod_start_phase_seconds_count{phase="sandbox"}`) {
		t.Error("a phase that failed counts as one that was gone through")
	}
}

func TestHooksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, text := watcher(t)
		p := web(time.Now())

		for _, phase := range []worker.Phase{worker.Syncing, worker.Terminating, worker.Terminated} {
			_, end := w.SyncStarted(t.Context(), p, phase)
			time.Sleep(time.Second)
			end(nil)
		}
		_, end := w.Call(t.Context(), "run_podsandbox")
		end(errors.New("no"))
		w.Relisted(time.Now(), time.Second)
		time.Sleep(time.Minute)
		w.Relisted(time.Now(), time.Second)
		pulled := w.Pulled(func(context.Context, string) (uint64, error) { return 50 << 20, nil })
		pulled(t.Context(), "localhost/app:1", time.Second, nil)
		pulled(t.Context(), "localhost/app:1", time.Second, errors.New("no"))
		w.Pulled(func(context.Context, string) (uint64, error) { return 0, errors.New("no") })(t.Context(), "localhost/app:2", time.Second, nil)
		w.Probed(p, "app", "Readiness", probe.Success, time.Second)
		w.Cgroup("create")()
		w.Restarted(p)
		w.Updated("file", pod.Add, 2)
		w.Rejected("OutOfcpu")
		w.Preempted(1)
		w.Orphaned()
		w.OrphansCleaned(3, 1)
		w.ImageEnsured(v1.PullNever, new(false), new(true))
		w.ImageAccessChecked(image.MustAuthenticate)

		lines(t, text(),
			`kubelet_pod_worker_duration_seconds_sum{operation_type="sync"} 1`, `kubelet_pod_worker_duration_seconds_sum{operation_type="kill"} 1`,
			`kubelet_pod_worker_duration_seconds_sum{operation_type="terminated"} 1`,
			`kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 1`,
			`kubelet_pleg_relist_interval_seconds_sum 60`, `kubelet_pleg_relist_duration_seconds_count 2`,
			`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="10MB-100MB"} 1`, `kubelet_image_pull_duration_seconds_count{image_size_in_bytes="N/A"} 1`,
			`prober_probe_total{container="app",namespace="shop",pod="web",pod_uid="1",probe_type="Readiness",result="successful"} 1`,
			`kubelet_cgroup_manager_duration_seconds_count{operation_type="create"} 1`, `kubelet_restarted_pods_total{static="true"} 1`,
			`berth_updates_total{op="ADD",source="file"} 2`, `kubelet_admission_rejections_total{reason="OutOfcpu"} 1`,
			`kubelet_preemptions{preemption_signal=""} 1`, `kubelet_orphaned_runtime_pods_total 1`,
		)
	})
}

func TestCount(t *testing.T) {
	static, gone, unknown := web(time.Now()), web(time.Now()), &v1.Pod{}
	gone.UID, unknown.UID = "2", "3"
	regular := &v1.Pod{}
	regular.UID, regular.Annotations = "4", map[string]string{pod.AnnotationSource: pod.SourceAPI}

	got := Count([]*v1.Pod{static, regular}, func(*v1.Pod) bool { return true }, map[pod.UID]worker.Life{
		"1": {Pod: static, Phase: worker.Syncing}, "2": {Pod: gone, Phase: worker.Terminating}, "3": {Pod: unknown, Phase: worker.Terminating},
		"4": {Pod: regular, Phase: worker.Terminated},
	}, []pod.Observed{{
		UID: "1", Sandboxes: []pod.Sandbox{{State: pod.SandboxReady}},
		Containers: []pod.Container{{State: pod.ContainerRunning}, {State: pod.ContainerExited}, {State: pod.ContainerExited}},
	}, {UID: "4"}})

	if got.Running != 1 || got.Mirrors != 1 || got.Desired != (metrics.Kinds{Static: 1, Regular: 1}) || got.Active != (metrics.Kinds{Static: 1}) {
		t.Errorf("got %+v", got)
	}
	if got.Containers["running"] != 1 || got.Containers["exited"] != 2 || len(got.UIDs) != 4 {
		t.Errorf("got %+v", got)
	}
	for work, n := range map[metrics.Work]int{
		{Lifecycle: "sync", Config: "desired", Static: true}: 1, {Lifecycle: "terminating", Config: "orphan", Static: true}: 1,
		{Lifecycle: "terminating", Config: "runtime_only"}: 1, {Lifecycle: "terminated", Config: "desired"}: 1,
	} {
		if got.Working[work] != n {
			t.Errorf("%+v is there %d times: %v", work, got.Working[work], got.Working)
		}
	}
}
