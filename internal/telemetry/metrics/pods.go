package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// startBuckets are the kubelet's for the time that a pod takes to start, with finer
// ones in front: pods of berth start in less.
func startBuckets() []float64 {
	return []float64{.1, .25, .5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
}

// podMetrics are about what is done for pods.
type podMetrics struct {
	startDuration, startSLI, workerStart  prometheus.Histogram
	worker, sandbox, phase, pull, cgroups *prometheus.HistogramVec
	statusSync, wait                      prometheus.Histogram
	containers, startTotal                prometheus.Histogram

	startedPods, startedPodsErrors, orphans prometheus.Counter
	sandboxErrors                           *prometheus.CounterVec
	startedContainers                       *prometheus.CounterVec
	startedContainersErrors                 *prometheus.CounterVec
	terminatedContainers                    *prometheus.CounterVec
	usernsPods, usernsPodsErrors            prometheus.Counter
	restarted, rejections, preemptions      *prometheus.CounterVec
	updates                                 *prometheus.CounterVec
	shortSleeps                             prometheus.Counter
}

func newPodMetrics() podMetrics {
	return podMetrics{
		startDuration: histogram("kubelet_pod_start_duration_seconds", "Time from when a pod was first seen until its containers run.", startBuckets()),
		startSLI: histogram("kubelet_pod_start_sli_duration_seconds",
			"Time from the creation of a pod until it is seen to run, without image pulls and init containers.", startBuckets()),
		startTotal: histogram("kubelet_pod_start_total_duration_seconds",
			"Time from the creation of a pod until it is seen to run, with image pulls and init containers.", startBuckets()),
		containers:  histogram("kubelet_containers_per_pod_count", "Containers of a pod.", prometheus.ExponentialBuckets(1, 2, 5)),
		workerStart: histogram("kubelet_pod_worker_start_duration_seconds", "Time from when a pod was first seen until a worker began with it.", prometheus.DefBuckets),
		worker:      histograms("kubelet_pod_worker_duration_seconds", "Time of one turn of a pod's worker.", prometheus.DefBuckets, "operation_type"),
		sandbox:     histograms("kubelet_run_podsandbox_duration_seconds", "Time to make a sandbox.", prometheus.DefBuckets, "runtime_handler"),
		pull: histograms("kubelet_image_pull_duration_seconds", "Time to pull an image.",
			[]float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}, "image_size_in_bytes"),
		cgroups:    histograms("kubelet_cgroup_manager_duration_seconds", "Time of an operation on a pod's cgroup.", prometheus.DefBuckets, "operation_type"),
		statusSync: histogram("kubelet_pod_status_sync_duration_seconds", "Time from a new status until the API server has it.", []float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60}),
		phase: histograms("berth_pod_start_phase_seconds", "Time of a phase of a pod's start.",
			prometheus.ExponentialBuckets(.001, 2.5, 14), "phase"),
		wait: histogram("berth_start_wait_seconds", "Time that a pod waited for a start slot.", prometheus.ExponentialBuckets(.001, 2.5, 14)),

		startedPods:             count("kubelet_started_pods_total", "Pods for which a sandbox was begun."),
		startedPodsErrors:       count("kubelet_started_pods_errors_total", "Pods for which a sandbox could not be made."),
		orphans:                 count("kubelet_orphaned_runtime_pods_total", "Pods that were found in the runtime and that no source had."),
		sandboxErrors:           counts("kubelet_run_podsandbox_errors_total", "Sandboxes that could not be made.", "runtime_handler"),
		startedContainers:       counts("kubelet_started_containers_total", "Containers that were begun to be started.", "container_type"),
		startedContainersErrors: counts("kubelet_started_containers_errors_total", "Containers that could not be started.", "container_type", "code"),
		terminatedContainers:    counts("kubelet_terminated_containers_total", "Containers that have ended.", "container_type", "exit_code", "reason"),
		usernsPods:              count("kubelet_started_user_namespaced_pods_total", "Pods with a user namespace for which a sandbox was begun."),
		usernsPodsErrors:        count("kubelet_started_user_namespaced_pods_errors_total", "Pods with a user namespace for which a sandbox could not be made."),
		restarted:               counts("kubelet_restarted_pods_total", "Pods that came again under the UID that they had.", "static"),
		rejections:              counts("kubelet_admission_rejections_total", "Pods that may not run here.", "reason"),
		preemptions:             counts("kubelet_preemptions", "Pods that were ended because a critical one needed their room.", "preemption_signal"),
		shortSleeps:             count("kubelet_sleep_action_terminated_early_total", "Sleep hooks that ended before their time."),
		updates:                 counts("berth_updates_total", "Pods that a source sent changes of.", "source", "op"),
	}
}

func (p podMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		p.startDuration, p.startSLI, p.workerStart, p.worker, p.sandbox, p.phase, p.pull, p.cgroups, p.statusSync, p.wait,
		p.startedPods, p.startedPodsErrors, p.orphans, p.sandboxErrors, p.startedContainers, p.startedContainersErrors,
		p.terminatedContainers, p.usernsPods, p.usernsPodsErrors, p.containers, p.startTotal,
		p.restarted, p.rejections, p.preemptions, p.updates, p.shortSleeps,
	}
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func count(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counts(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// PodStarted observes the start of a pod: the time since the pod was first seen, the time since its creation, and that
// time without pulls, which is the start SLI. A negative time is not observed.
func (m *Metrics) PodStarted(sinceSeen, sinceCreated, sli time.Duration) {
	m.pods.startDuration.Observe(sinceSeen.Seconds())
	if sinceCreated >= 0 {
		m.pods.startTotal.Observe(sinceCreated.Seconds())
	}
	if sli >= 0 {
		m.pods.startSLI.Observe(sli.Seconds())
	}
}

// PodSeen observes how many containers a pod has that a worker begins with.
func (m *Metrics) PodSeen(containers int) { m.pods.containers.Observe(float64(containers)) }

// WorkerStarted observes how long after it was seen a worker began with a pod.
func (m *Metrics) WorkerStarted(sinceSeen time.Duration) {
	m.pods.workerStart.Observe(sinceSeen.Seconds())
}

// WorkerSynced observes one turn of a pod's worker: sync, kill or terminated.
func (m *Metrics) WorkerSynced(operation string, took time.Duration) {
	m.pods.worker.WithLabelValues(operation).Observe(took.Seconds())
}

// Phase observes a phase of a pod's start.
func (m *Metrics) Phase(phase string, took time.Duration) {
	m.pods.phase.WithLabelValues(phase).Observe(took.Seconds())
}

// SlotAcquired observes how long a pod waited for a start slot.
func (m *Metrics) SlotAcquired(took time.Duration) { m.pods.wait.Observe(took.Seconds()) }

// Sandbox counts an attempt to create a sandbox. userns says that the pod has a user namespace.
func (m *Metrics) Sandbox(handler string, userns bool, took time.Duration, err error) {
	m.pods.startedPods.Inc()
	if userns {
		m.pods.usernsPods.Inc()
		if err != nil {
			m.pods.usernsPodsErrors.Inc()
		}
	}
	m.pods.sandbox.WithLabelValues(handler).Observe(took.Seconds())
	if err != nil {
		m.pods.startedPodsErrors.Inc()
		m.pods.sandboxErrors.WithLabelValues(handler).Inc()
	}
}

// ContainerStarted and ContainerFailed count containers: kind is container, init_container or
// ephemeral_container, and reason is a waiting reason.
func (m *Metrics) ContainerStarted(kind string) { m.pods.startedContainers.WithLabelValues(kind).Inc() }

func (m *Metrics) ContainerFailed(kind, reason string) {
	m.pods.startedContainersErrors.WithLabelValues(kind, reason).Inc()
}

// ContainerTerminated counts a container that has ended.
func (m *Metrics) ContainerTerminated(kind string, exitCode int32, reason string) {
	m.pods.terminatedContainers.WithLabelValues(kind, strconv.Itoa(int(exitCode)), reason).Inc()
}

// ImagePulled observes the pull of an image. A size of 0 is not known.
func (m *Metrics) ImagePulled(size uint64, took time.Duration) {
	m.pods.pull.WithLabelValues(sizeRange(size)).Observe(took.Seconds())
}

// Cgroup observes an operation on the cgroup of a pod: create, update or destroy.
func (m *Metrics) Cgroup(operation string, took time.Duration) {
	m.pods.cgroups.WithLabelValues(operation).Observe(took.Seconds())
}

// StatusWritten observes how long it took until the API server had a status.
func (m *Metrics) StatusWritten(took time.Duration) { m.pods.statusSync.Observe(took.Seconds()) }

// Restarted counts a pod that was added again under the same UID.
func (m *Metrics) Restarted(static bool) { m.pods.restarted.WithLabelValues(staticLabel(static)).Inc() }

// Updated counts the updates of a source.
func (m *Metrics) Updated(source, op string, pods int) {
	m.pods.updates.WithLabelValues(source, op).Add(float64(pods))
}

func (m *Metrics) Rejected(reason string) { m.pods.rejections.WithLabelValues(reason).Inc() }

func (m *Metrics) Preempted(victims int) {
	m.pods.preemptions.WithLabelValues("").Add(float64(victims))
}

// SleepCutShort counts a sleep hook that ended before its time.
func (m *Metrics) SleepCutShort() { m.pods.shortSleeps.Inc() }

func (m *Metrics) Orphaned() { m.pods.orphans.Inc() }

// staticLabel is how the kubelet labels static pods and others.
func staticLabel(static bool) string {
	if static {
		return "true"
	}
	return ""
}
