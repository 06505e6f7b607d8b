package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"berth/internal/lib/pod"
	"berth/internal/pods/cgroup"
	"berth/internal/telemetry/stats"
)

// usage is a node with so many pods.
type usage struct {
	pods   int
	broken bool
}

func (u usage) Read(_ context.Context, scope stats.Scope) (*stats.Snapshot, error) {
	if u.broken {
		return nil, errors.New("no cgroups")
	}
	now := time.Unix(1_700_000_000, 0)
	measured := stats.Usage{Usage: cgroup.Usage{At: now, CPU: new(uint64(1_500_000_000)), Processes: new(uint64(3)), Memory: &cgroup.Memory{
		Usage: 100, WorkingSet: 90, RSS: 80, Cache: 10, Swap: new(uint64(5)), SwapLimit: new(uint64(50)), Limit: new(uint64(1000)),
	}}}
	network := &stats.Network{At: now, Interfaces: []stats.Interface{{Name: "eth0", RxBytes: 7}}}
	pressure := cgroup.Pressure{Some: new(uint64(2)), Full: new(uint64(1))}
	s := &stats.Snapshot{At: now, Node: stats.Node{Name: "box", Usage: measured, Cores: 2, MemoryTotal: 1 << 30, SwapTotal: new(uint64(9))}}
	if scope >= stats.Full {
		s.Node.Network, s.Node.Topology = network, stats.Topology{PhysicalCores: 1, Sockets: 1}
		s.Node.DiskStats = []stats.DiskStats{{Device: "/dev/vda", Reads: 1, ReadTime: 1500}}
	}
	for i := range u.pods {
		p := stats.Pod{
			UID: pod.UID(fmt.Sprint("uid-", i)), Namespace: "shop", Name: fmt.Sprint("web-", i), SandboxID: fmt.Sprint("sandbox-", i),
			Cgroup: fmt.Sprint("/berth/pod", i), Started: now, Usage: measured,
		}
		c := stats.Container{ID: fmt.Sprint("id-", i), Name: "app", Image: "localhost/app:1", Cgroup: p.Cgroup + "/id", Started: now, Usage: measured}
		if scope >= stats.Full {
			p.Network = network
			c.Detail = cgroup.Detail{
				Periods: new(uint64(1)), Throttled: new(uint64(1)), ThrottledTime: new(uint64(1_000_000_000)), OOMKills: new(uint64(0)),
				UserCPU: new(uint64(1)), SystemCPU: new(uint64(1)),
				CPUPressure: pressure, MemoryPressure: pressure, IOPressure: pressure,
				MemoryPeak: new(uint64(1)), Quota: new(uint64(1)), Period: new(uint64(1)), Shares: new(uint64(2)),
				Bursts: new(uint64(1)), BurstTime: new(uint64(1)), MemoryLimited: new(uint64(1)), KernelMemory: new(uint64(1)),
			}
			c.Running = &stats.Processes{Count: 2, Descriptors: new(uint64(5)), Sockets: new(uint64(1)), MaxOpenFiles: new(int64(-1))}
			cost := &cgroup.DiskCost{Usage: 1_500_000}
			c.Disks = []stats.Disk{{Name: "/dev/vda", Disk: cgroup.Disk{Device: "8:0", ReadBytes: 4096, Cost: cost}}, {Name: "/dev/vdb", Disk: cgroup.Disk{Device: "8:16"}}}
			c.Writable = &stats.Filesystem{At: now, Used: new(uint64(1)), Capacity: new(uint64(2)), Inodes: new(uint64(3)), InodesFree: new(uint64(4))}
		}
		p.Containers = []stats.Container{c}
		s.Pods = append(s.Pods, p)
	}
	return s, nil
}

func (u usage) Claims(context.Context) []stats.Claim {
	return []stats.Claim{{Namespace: "shop", Name: "orders", Filesystem: stats.Filesystem{
		Used: new(uint64(1)), Available: new(uint64(2)), Capacity: new(uint64(3)),
		Inodes: new(uint64(4)), InodesFree: new(uint64(5)), InodesUsed: new(uint64(6)),
	}}}
}

func (u usage) Logs(context.Context) []stats.Log {
	return []stats.Log{{UID: "uid-0", Namespace: "shop", Pod: "web-0", Container: "app", Filesystem: stats.Filesystem{Used: new(uint64(100))}}}
}

// busy returns pages to which everything has happened once.
func busy(t testing.TB, u usage) *Pages {
	t.Helper()
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m.PodStarted(time.Second, time.Second, time.Second)
	m.PodSeen(2)
	m.ContainerTerminated("container", 1, "Error")
	m.ClientRenewFailed()
	m.ServerRenewFailed()
	m.ServerRotated(time.Hour)
	m.ImageCollected("space")
	m.ShutdownStarted(now)
	m.ShutdownEnded(now)
	m.WorkerStarted(time.Second)
	m.WorkerSynced("sync", time.Second)
	m.Phase("sandbox", time.Second)
	m.SlotAcquired(time.Second)
	m.Sandbox("", true, time.Second, errors.New("no"))
	m.ContainerStarted("container")
	m.ContainerFailed("container", "RunContainerError")
	m.ImagePulled(5<<20, time.Second)
	m.Cgroup("destroy", time.Second)
	m.StatusWritten(time.Second)
	m.Restarted(true)
	m.Updated("file", "ADD", 1)
	m.Rejected("OutOfcpu")
	m.Preempted(2)
	m.Orphaned()
	m.Call("run_podsandbox", time.Second, errors.New("no"))
	m.PodRelisted(time.Second)
	m.VolumeSetUp("kubernetes.io/secret", false, time.Second, errors.New("no"))
	m.CSICalled("disk.example", "NodePublishVolume", "OK", true, time.Second)
	m.VolumeLabelled("volumes_admitted", false, "disk.example", "RWOP")
	for _, outcome := range []string{"container", "pod_context_mismatch", "volume_context_mismatch"} {
		m.VolumeLabelled(outcome, false, "disk.example", "RWOP")
		m.VolumeLabelled(outcome, true, "disk.example", "RWX")
	}
	m.Relisted(now, time.Second, time.Minute)
	m.RegistrationStarted(now)
	m.Registered(now)
	m.NodeReady(now.Add(time.Second))
	m.ImageEnsured("IfNotPresent", new(true), nil)
	m.ImageAccessChecked("mustAuthenticate")
	m.CredentialPluginRan("ecr", time.Second, errors.New("no"))
	m.CredentialPluginsConfigured("sha256:00")
	m.ImageVolumes(2, 1, 1)
	m.WebSocketRequested("exec")
	m.VolumeReady("kubernetes.io/secret", time.Second)
	m.VolumeMeasured("statfs", time.Second)
	m.OrphansCleaned(2, 1)
	m.SleepCutShort()
	m.Checked("syncloop", nil)
	m.Probed(Probe{UID: "uid-0", Namespace: "shop", Name: "web-0", Container: "app", Kind: "Liveness", Result: "successful", Took: time.Second})
	client := m.ClientGo()
	client.RequestLatency.Observe(t.Context(), "GET", url.URL{Host: "api"}, time.Second)
	client.RateLimiterLatency.Observe(t.Context(), "GET", url.URL{Host: "api"}, time.Second)
	client.RequestResult.Increment(t.Context(), "200", "GET", "api")
	client.RequestRetry.IncrementRetry(t.Context(), "429", "GET", "api")
	client.ResolverLatency.Observe(t.Context(), "api", time.Second)
	client.RequestSize.Observe(t.Context(), "POST", "api", 100)
	client.ResponseSize.Observe(t.Context(), "GET", "api", 100)
	served := m.Watch("readwrite", func(*http.Request) Request { return Request{Path: "pods"} }, http.NotFoundHandler())
	served.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/pods", nil))
	p, err := NewPages(PagesConfig{
		Metrics: m, NodeName: "box", Version: "1", Kubernetes: "v1.36.3", Stats: u, CgroupVersion: 2,
		Counts: func() Counts {
			return Counts{
				Running: 1, Containers: map[string]int{"running": 2, "exited": 1}, Desired: Kinds{1, 2}, Active: Kinds{1, 1}, Mirrors: 1,
				Working: map[Work]int{{"sync", "desired", true}: 1}, UIDs: map[pod.UID]bool{"uid-0": true},
			}
		},
		Slots: func() (int, int, int) { return 1, 1, 3 },
		Volumes: func() map[Volumes]int {
			return map[Volumes]int{{"kubernetes.io/secret", true}: 1, {"kubernetes.io/secret", false}: 2}
		},
		Certificates:    func() map[PodCertificates]int { return map[PodCertificates]int{{"example.com/signer", "fresh"}: 1} },
		Booted:          now.Add(-time.Minute),
		ImageRecords:    func() ImageRecords { return ImageRecords{Pulled: 3, Pulling: 1} },
		Features:        []Feature{{Name: "MemoryQoS", Stage: "ALPHA", Enabled: true}, {Name: "KubeletPSI"}},
		Plugins:         func() []Plugin { return []Plugin{{"/plugins/a.sock", true}, {"/plugins/b.sock", false}} },
		ProtectedMemory: func() ProtectedMemory { return ProtectedMemory{Min: 1, Low: 2} },
		ClientExpiry:    func() time.Time { return now.Add(time.Hour) }, ServerExpiry: func() time.Time { return now.Add(time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Pages) all() map[string]http.Handler {
	return map[string]http.Handler{
		"metrics": p.Main(), "resource": p.Resource(), "cadvisor": p.Cadvisor(), "probes": p.Probes(), "slis": p.SLIs(),
	}
}

func scrape(t testing.TB, page http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func parse(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// TestThePagesAreGood lets Prometheus read every page, and compares what is there,
// with types and labels, with a list. Dashboards depend on each of these names.
func TestThePagesAreGood(t *testing.T) {
	for name, page := range busy(t, usage{pods: 2}).all() {
		text := scrape(t, page)
		families := parse(t, text)

		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range problems {
			if !knownSins[p.Metric] && !strings.HasPrefix(p.Metric, "go_") {
				t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
			}
		}
		var got strings.Builder
		for _, family := range slices.Sorted(maps.Keys(families)) {
			if strings.HasPrefix(family, "go_") || strings.HasPrefix(family, "process_") {
				continue
			}
			fmt.Fprintln(&got, describe(t, families[family]))
		}
		golden := filepath.Join("testdata", name+".txt")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != string(want) {
			t.Errorf("%s is not as %s says; it has\n%s", name, golden, got.String())
		}
	}
}

// knownSins are names that a linter does not like and that the kubelet and cAdvisor
// gave them.
var knownSins = map[string]bool{
	"container_memory_cache": true, "container_memory_rss": true, "container_memory_swap": true, "container_memory_mapped_file": true,
	"container_fs_inodes_total": true, "kubelet_preemptions": true, "kubelet_image_pull_duration_seconds": true,
	"volume_manager_total_volumes": true, "plugin_manager_total_plugins": true, "kubelet_credential_provider_plugin_duration": true, "container_memory_failcnt": true, "container_memory_kernel_usage": true, "container_ulimits_soft": true, "kubelet_certificate_manager_client_expiration_renew_errors": true, "kubelet_server_expiration_renew_errors": true,
	"volume_manager_selinux_container_errors_total": true, "volume_manager_selinux_container_warnings_total": true,
	"volume_manager_selinux_pod_context_mismatch_errors_total": true, "volume_manager_selinux_pod_context_mismatch_warnings_total": true,
	"volume_manager_selinux_volume_context_mismatch_errors_total": true, "volume_manager_selinux_volume_context_mismatch_warnings_total": true,
	"volume_manager_selinux_volumes_admitted_total": true,
}

// describe is the type and the labels of a family, in which no line is twice.
func describe(t *testing.T, f *dto.MetricFamily) string {
	t.Helper()
	labels := map[string]bool{}
	lines := map[string]bool{}
	for _, m := range f.GetMetric() {
		line := fmt.Sprint(m.GetLabel())
		if lines[line] {
			t.Errorf("%s is there twice for %s", f.GetName(), line)
		}
		lines[line] = true
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = true
		}
	}
	return fmt.Sprintf("%s %s {%s}", strings.ToLower(f.GetType().String()), f.GetName(), strings.Join(slices.Sorted(maps.Keys(labels)), ","))
}

func TestResourceLinesBearTheirTime(t *testing.T) {
	text := scrape(t, busy(t, usage{pods: 1}).Resource())

	for _, line := range []string{
		`container_cpu_usage_seconds_total{container="app",namespace="shop",pod="web-0"} 1.5 1700000000000`,
		`pod_memory_working_set_bytes{namespace="shop",pod="web-0"} 90 1700000000000`,
		`node_cpu_usage_seconds_total 1.5 1700000000000`,
		`container_start_time_seconds{container="app",namespace="shop",pod="web-0"} 1.7e+09` + "\n",
		`container_swap_limit_bytes{container="app",namespace="shop",pod="web-0"} 50 1700000000000`,
		"resource_scrape_error 0\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no line %s in\n%s", line, text)
		}
	}
}

func TestCadvisorLines(t *testing.T) {
	text := scrape(t, busy(t, usage{pods: 1}).Cadvisor())

	const app = `container="app",%sid="/berth/pod0/id",image="localhost/app:1",%sname="id-0",namespace="shop",%spod="web-0"%s`
	for _, line := range []string{
		"container_processes{" + fmt.Sprintf(app, "", "", "", "") + "} 2 1700000000000",
		"container_threads{" + fmt.Sprintf(app, "", "", "", "") + "} 3 1700000000000",
		"container_threads_max{" + fmt.Sprintf(app, "", "", "", "") + "} 0 1700000000000",
		"container_ulimits_soft{" + fmt.Sprintf(app, "", "", "", `,ulimit="max_open_files"`) + "} -1 1700000000000",
		"container_blkio_device_usage_total{" + fmt.Sprintf(app, `device="/dev/vda",`, `major="8",minor="0",`, `operation="Read",`, "") + "} 4096 1700000000000",
		"container_fs_io_cost_usage_seconds_total{" + fmt.Sprintf(app, `device="/dev/vda",`, "", "", "") + "} 1.5 1700000000000",
		`container_fs_read_seconds_total{container="",device="/dev/vda",id="/",image="",name="",namespace="",pod=""} 1.5 1700000000000`,
		"machine_cpu_sockets 1\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no line %s in\n%s", line, text)
		}
	}
}

func TestLinesThatAreReadAtTheScrape(t *testing.T) {
	text := scrape(t, busy(t, usage{}).Main())

	for _, line := range []string{
		`kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="ifnotpresent",pull_required="unknown"} 1`,
		`kubelet_container_log_filesystem_used_bytes{container="app",namespace="shop",pod="web-0",uid="uid-0"} 100`,
		`kubernetes_feature_enabled{name="KubeletPSI",stage=""} 0`,
		`plugin_manager_total_plugins{socket_path="/plugins/a.sock",state="actual_state_of_world"} 1`,
		`plugin_manager_total_plugins{socket_path="/plugins/b.sock",state="desired_state_of_world"} 1`,
		"kubelet_node_startup_post_registration_duration_seconds 1\n",
		"kubelet_memory_qos_node_memory_low_bytes 2\n",
		"kubelet_imagemanager_ondisk_pulledrecords 3\n",
		"kubelet_orphan_pod_cleaned_volumes_errors 1\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no line %s", line)
		}
	}
	if strings.Contains(text, `socket_path="/plugins/b.sock",state="actual_state_of_world"`) {
		t.Error("a plugin that is not registered counts as such")
	}
}

func TestAScrapeThatFailsSaysSo(t *testing.T) {
	p := busy(t, usage{broken: true})

	if text := scrape(t, p.Resource()); !strings.Contains(text, "resource_scrape_error 1") {
		t.Errorf("got %s", text)
	}
	w := httptest.NewRecorder()
	p.Cadvisor().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("got %d", w.Code)
	}
}

func TestWhatNeverHappenedIsNotThere(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPages(PagesConfig{
		Metrics: m, NodeName: "box", Stats: usage{}, Counts: func() Counts { return Counts{} }, Slots: func() (int, int, int) { return 0, 2, 0 },
	})
	if err != nil {
		t.Fatal(err)
	}

	families := parse(t, scrape(t, p.Main()))

	for _, name := range []string{
		"kubelet_certificate_manager_client_ttl_seconds", "kubelet_evictions",
		"kubelet_preemptions", "rest_client_requests_total",
	} {
		if families[name] != nil {
			t.Errorf("%s is there", name)
		}
	}
}

func TestMetricsOfAPodThatIsGoneVanish(t *testing.T) {
	p := busy(t, usage{})
	for i := range 3 {
		p.Metrics.Probed(Probe{UID: "uid-0", Namespace: "shop", Name: "web-0", Container: "app", Kind: "Liveness", Result: "failed", Took: time.Duration(i)})
		p.Metrics.Probed(Probe{UID: "late", Namespace: "shop", Name: "late", Container: "app", Kind: "Liveness", Result: "failed"})
	}

	// A probe of a pod that is gone is left out.
	text := scrape(t, p.Probes())
	if strings.Contains(text, "late") || !strings.Contains(text, `pod_uid="uid-0"`) {
		t.Errorf("got %s", text)
	}
	p.Metrics.Forget("uid-0")
	if text := scrape(t, p.Probes()); strings.Contains(text, "web-0") {
		t.Errorf("got %s", text)
	}
	if len(p.Metrics.probed.pods) != 0 {
		t.Error("pods are kept")
	}
}

func TestAPodOfTheSameNameKeepsItsDurations(t *testing.T) {
	m := newProbeMetrics()
	metrics := &Metrics{probed: m}
	for _, uid := range []pod.UID{"old", "new"} {
		metrics.Probed(Probe{UID: uid, Namespace: "shop", Name: "db-0", Container: "app", Kind: "Readiness", Result: "successful"})
	}

	metrics.Forget("old")

	left := make(chan prometheus.Metric, 8)
	m.duration.Collect(left)
	if n := len(left); n != 1 {
		t.Errorf("there are %d durations", n)
	}
	m.total.Collect(left)
	if n := len(left); n != 2 {
		t.Errorf("there are %d totals", n-1)
	}
}

func TestSizesOfImages(t *testing.T) {
	for size, want := range map[uint64]string{
		0: "N/A", 1: "0-10MB", 10 << 20: "0-10MB", 10<<20 + 1: "10MB-100MB", 600 << 20: "500MB-1GB", 2 << 30: "1GB-5GB", 200 << 30: "GT100GB",
	} {
		if got := sizeRange(size); got != want {
			t.Errorf("%d is %q, want %q", size, got, want)
		}
	}
}

func TestAClientCanNotMakeUpMethods(t *testing.T) {
	p := busy(t, usage{})
	h := p.Metrics.Watch("readwrite", func(*http.Request) Request { return Request{Path: "exec", LongRunning: true} }, http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("BREW", "/exec", nil))

	text := scrape(t, p.Main())

	if strings.Contains(text, "BREW") || !strings.Contains(text, `kubelet_http_requests_total{long_running="true",method="other",path="exec",server_type="readwrite"} 1`) {
		t.Error("a method of the client's own was counted, or not at all")
	}
}

func TestNewPagesNeedsAll(t *testing.T) {
	if _, err := NewPages(PagesConfig{}); err == nil {
		t.Error("pages were made of nothing")
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, pods := range []int{60, 500} {
		p := busy(b, usage{pods: pods})
		for name, page := range map[string]http.Handler{"main": p.Main(), "resource": p.Resource(), "cadvisor": p.Cadvisor()} {
			b.Run(fmt.Sprintf("%s/%d", name, pods), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					scrape(b, page)
				}
			})
		}
	}
}
