package kubelet

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/config/features"
)

// evictionHard are the kubelet's hard eviction thresholds, the default of the field evictionHard.
var evictionHard = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

// EvictionHard returns the kubelet's hard eviction thresholds.
func EvictionHard() map[string]string { return maps.Clone(evictionHard) }

// legacyReadOnlyPort is the read-only port of a kubelet without a configuration file.
const legacyReadOnlyPort = 10255

// setDefaults fills in the fields that were not set, as the kubelet does.
func setDefaults(k *kubeletconfig.KubeletConfiguration, gates features.Gates) {
	setServerDefaults(k)
	setNodeDefaults(k)
	setImageDefaults(k, gates)
	setResourceDefaults(k)
	setContainerDefaults(k, gates)
	logsapi.SetRecommendedLoggingConfiguration(&k.Logging)
}

// setLegacyDefaults sets the defaults of a kubelet without a configuration file: its ports are open
// to all clients.
func setLegacyDefaults(k *kubeletconfig.KubeletConfiguration) {
	k.Authentication.Anonymous.Enabled = new(true)
	k.Authentication.Webhook.Enabled = new(false)
	k.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeAlwaysAllow
	k.ReadOnlyPort = legacyReadOnlyPort
}

func setServerDefaults(k *kubeletconfig.KubeletConfiguration) {
	setField(&k.EnableServer, new(true))
	setField(&k.Address, "0.0.0.0")
	setField(&k.Port, 10250)
	setField(&k.Authentication.Anonymous.Enabled, new(false))
	setField(&k.Authentication.Webhook.Enabled, new(true))
	setDuration(&k.Authentication.Webhook.CacheTTL, 2*time.Minute)
	setField(&k.Authorization.Mode, kubeletconfig.KubeletAuthorizationModeWebhook)
	setDuration(&k.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	setDuration(&k.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
	setField(&k.EnableDebuggingHandlers, new(true))
	setField(&k.EnableSystemLogHandler, new(true))
	setField(&k.EnableProfilingHandler, new(true))
	setField(&k.EnableDebugFlagsHandler, new(true))
	setField(&k.HealthzPort, new(int32(10248)))
	setField(&k.HealthzBindAddress, "127.0.0.1")
	setDuration(&k.StreamingConnectionIdleTimeout, 4*time.Hour)
	setField(&k.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	setDuration(&k.RuntimeRequestTimeout, 2*time.Minute)
	setField(&k.MaxOpenFiles, 1_000_000)
	setField(&k.OOMScoreAdj, new(int32(-999)))
	setDuration(&k.SyncFrequency, time.Minute)
	setDuration(&k.FileCheckFrequency, 20*time.Second)
	setDuration(&k.HTTPCheckFrequency, 20*time.Second)
}

func setNodeDefaults(k *kubeletconfig.KubeletConfiguration) {
	setField(&k.RegisterNode, new(true))
	setField(&k.ContentType, "application/vnd.kubernetes.protobuf")
	setField(&k.KubeAPIQPS, new(int32(50)))
	setField(&k.KubeAPIBurst, 100)
	setField(&k.EventRecordQPS, new(int32(50)))
	setField(&k.EventBurst, 100)
	// The report frequency defaults to an update frequency that was set.
	setDuration(&k.NodeStatusReportFrequency, k.NodeStatusUpdateFrequency.Duration)
	setDuration(&k.NodeStatusReportFrequency, 5*time.Minute)
	setDuration(&k.NodeStatusUpdateFrequency, 10*time.Second)
	setField(&k.NodeLeaseDurationSeconds, 40)
	setField(&k.NodeStatusMaxImages, new(int32(50)))
	setField(&k.MaxPods, 110)
	setField(&k.FailSwapOn, new(true))
	setField(&k.FailCgroupV1, new(true))
	setField(&k.ConfigMapAndSecretChangeDetectionStrategy, kubeletconfig.WatchChangeDetectionStrategy)
	setField(&k.EnableControllerAttachDetach, new(true))
	setField(&k.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	setDuration(&k.VolumeStatsAggPeriod, time.Minute)
	setField(&k.MakeIPTablesUtilChains, new(true))
	setField(&k.IPTablesMasqueradeBit, new(int32(14)))
	setField(&k.IPTablesDropBit, new(int32(15)))
	setField(&k.HairpinMode, kubeletconfig.PromiscuousBridge)
}

func setImageDefaults(k *kubeletconfig.KubeletConfiguration, gates features.Gates) {
	setField(&k.RegistryPullQPS, new(int32(5)))
	setField(&k.RegistryBurst, 10)
	setDuration(&k.ImageMinimumGCAge, 2*time.Minute)
	setField(&k.ImageGCHighThresholdPercent, new(int32(85)))
	setField(&k.ImageGCLowThresholdPercent, new(int32(80)))
	setField(&k.SerializeImagePulls, new(k.MaxParallelImagePulls == nil || *k.MaxParallelImagePulls < 2))
	if gates.Enabled("KubeletEnsureSecretPulledImages") {
		setField(&k.ImagePullCredentialsVerificationPolicy, kubeletconfig.NeverVerifyPreloadedImages)
	}
}

func setResourceDefaults(k *kubeletconfig.KubeletConfiguration) {
	setField(&k.CgroupsPerQOS, new(true))
	setField(&k.CgroupDriver, "cgroupfs")
	setField(&k.CPUManagerPolicy, "none")
	setDuration(&k.CPUManagerReconcilePeriod, 10*time.Second)
	setField(&k.MemoryManagerPolicy, kubeletconfig.NoneMemoryManagerPolicy)
	setField(&k.TopologyManagerPolicy, kubeletconfig.NoneTopologyManagerPolicy)
	setField(&k.TopologyManagerScope, kubeletconfig.ContainerTopologyManagerScope)
	setField(&k.MemoryThrottlingFactor, new(0.9))
	setField(&k.MemoryReservationPolicy, kubeletconfig.NoneMemoryReservationPolicy)
	setField(&k.LocalStorageCapacityIsolation, new(true))
	setDuration(&k.EvictionPressureTransitionPeriod, 5*time.Minute)
	setField(&k.MergeDefaultEvictionSettings, new(false))
	if k.EnforceNodeAllocatable == nil {
		k.EnforceNodeAllocatable = []string{"pods"}
	}
}

func setContainerDefaults(k *kubeletconfig.KubeletConfiguration, gates features.Gates) {
	if k.PodPidsLimit == nil || *k.PodPidsLimit < 0 {
		k.PodPidsLimit = new(int64(-1))
	}
	setField(&k.ResolverConfig, new("/etc/resolv.conf"))
	setField(&k.CPUCFSQuota, new(true))
	setField(&k.CPUCFSQuotaPeriod, &metav1.Duration{Duration: 100 * time.Millisecond})
	setField(&k.ContainerLogMaxSize, "10Mi")
	setField(&k.ContainerLogMaxFiles, new(int32(5)))
	setField(&k.ContainerLogMaxWorkers, new(int32(1)))
	setField(&k.ContainerLogMonitorInterval, &metav1.Duration{Duration: 10 * time.Second})
	setField(&k.SeccompDefault, new(false))
	setField(&k.PodLogsDir, "/var/log/pods")
	if gates.Enabled("KubeletCrashLoopBackOffMax") {
		setField(&k.CrashLoopBackOff.MaxContainerRestartPeriod, &metav1.Duration{Duration: 5 * time.Minute})
	}
}

// setField sets a field that is not set.
func setField[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// setDuration sets a duration that is not set.
func setDuration(to *metav1.Duration, d time.Duration) {
	if to.Duration == 0 {
		to.Duration = d
	}
}
