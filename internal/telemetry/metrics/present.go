package metrics

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth/internal/lib/pod"
)

// Counts are the numbers of pods and containers at a moment.
type Counts struct {
	Running    int            // pods of which something runs
	Containers map[string]int // by state: created, running, exited, unknown
	Desired    Kinds
	Active     Kinds // desired, and not ended
	Mirrors    int
	Working    map[Work]int // pods by the work that their workers do
	Ephemeral  int          // ephemeral containers of the desired pods
	UIDs       map[pod.UID]bool
}

// Kinds counts pods by where they come from.
type Kinds struct{ Static, Regular int }

// Work is the state of a pod's worker: Lifecycle is sync, terminating or terminated, and
// Config desired, orphan or runtime_only.
type Work struct {
	Lifecycle, Config string
	Static            bool
}

// present is a collector that computes its metrics with each scrape. It describes none, since
// they depend on the present pods and containers.
type present struct{ pages *Pages }

func (p present) Describe(chan<- *prometheus.Desc) {}

func (p present) Collect(out chan<- prometheus.Metric) {
	c := p.pages
	emit := func(name, help string, value float64, pairs ...string) {
		var names, values []string
		for i := 0; i+1 < len(pairs); i += 2 {
			names, values = append(names, pairs[i]), append(values, pairs[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.GaugeValue, value, values...)
	}
	now := c.Counts()
	emit("kubelet_running_pods", "Pods of which something runs.", float64(now.Running))
	for state, n := range now.Containers {
		emit("kubelet_running_containers", "Containers that the runtime holds, by their state.", float64(n), "container_state", state)
	}
	for _, k := range []struct {
		name, help string
		kinds      Kinds
	}{
		{"kubelet_desired_pods", "Pods that this node is asked to run.", now.Desired},
		{"kubelet_active_pods", "Pods that this node is asked to run and that have not ended.", now.Active},
	} {
		emit(k.name, k.help, float64(k.kinds.Regular), "static", staticLabel(false))
		emit(k.name, k.help, float64(k.kinds.Static), "static", staticLabel(true))
	}
	emit("kubelet_mirror_pods", "Static pods that can be seen at the API server.", float64(now.Mirrors))
	emit("kubelet_managed_ephemeral_containers", "Ephemeral containers of the pods that this node is asked to run.", float64(now.Ephemeral))
	for work, n := range now.Working {
		emit("kubelet_working_pods", "Pods that have a worker.", float64(n),
			"lifecycle", work.Lifecycle, "config", work.Config, "static", staticLabel(work.Static))
	}
	taken, free, waiting := c.Slots()
	emit("berth_start_slots", "Pods that may make their start calls at a time.", float64(taken), "state", "taken")
	emit("berth_start_slots", "Pods that may make their start calls at a time.", float64(free), "state", "free")
	emit("berth_start_queue_length", "Pods that wait for a start slot.", float64(waiting))
	emit("kubelet_node_name", "The name of this node; always 1.", 1, "node", c.NodeName)
	if c.CgroupVersion != 0 {
		emit("kubelet_cgroup_version", "Version of the cgroup hierarchy: 1 or 2.", float64(c.CgroupVersion))
	}
	p.versions(emit)
	p.volumes(emit)
	p.certificates(emit)
	p.imageRecords(emit)
	p.features(emit)
	p.plugins(emit)
	p.protectedMemory(emit)
	p.startup(emit)
	p.times(emit)
}

type emitFunc = func(name, help string, value float64, pairs ...string)

func (p present) versions(emit emitFunc) {
	c := p.pages
	emit("berth_build_info", "What this binary is; always 1.", 1, "version", c.Version, "go_version", runtime.Version())
	if c.Kubernetes == "" {
		return
	}
	numbers := strings.Split(strings.TrimPrefix(c.Kubernetes, "v"), ".")
	for len(numbers) < 2 {
		numbers = append(numbers, "")
	}
	emit("kubernetes_build_info", "The version of Kubernetes that this node speaks; always 1.", 1,
		"major", numbers[0], "minor", numbers[1], "git_version", c.Kubernetes, "go_version", runtime.Version(),
		"compiler", runtime.Compiler, "platform", runtime.GOOS+"/"+runtime.GOARCH)
}

func (p present) times(emit emitFunc) {
	ttl := func(name, help string, until func() time.Time) {
		if until == nil {
			return
		}
		if at := until(); !at.IsZero() {
			emit(name, help, time.Until(at).Seconds())
		}
	}
	ttl("kubelet_certificate_manager_client_ttl_seconds", "For how long the client certificate is still good.", p.pages.ClientExpiry)
	ttl("kubelet_certificate_manager_server_ttl_seconds", "For how long the serving certificate is still good.", p.pages.ServerExpiry)
}
