package kubelet

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/config/features"
)

// evictionHard are the kubelet's thresholds for a configuration file that sets none.
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

// setLegacyDefaults opens the ports of a kubelet without a configuration file to everybody.
func setLegacyDefaults(k *kubeletconfig.KubeletConfiguration) {
	k.Authentication.Anonymous.Enabled = new(true)
	k.Authentication.Webhook.Enabled = new(false)
	k.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeAlwaysAllow
	k.ReadOnlyPort = legacyReadOnlyPort
}

func setServerDefaults(k *kubeletconfig.KubeletConfiguration) {
	or(&k.EnableServer, new(true))
	or(&k.Address, "0.0.0.0")
	or(&k.Port, 10250)
	or(&k.Authentication.Anonymous.Enabled, new(false))
	or(&k.Authentication.Webhook.Enabled, new(true))
	after(&k.Authentication.Webhook.CacheTTL, 2*time.Minute)
	or(&k.Authorization.Mode, kubeletconfig.KubeletAuthorizationModeWebhook)
	after(&k.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	after(&k.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
	or(&k.EnableDebuggingHandlers, new(true))
	or(&k.EnableSystemLogHandler, new(true))
	or(&k.EnableProfilingHandler, new(true))
	or(&k.EnableDebugFlagsHandler, new(true))
	or(&k.HealthzPort, new(int32(10248)))
	or(&k.HealthzBindAddress, "127.0.0.1")
	after(&k.StreamingConnectionIdleTimeout, 4*time.Hour)
	or(&k.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	after(&k.RuntimeRequestTimeout, 2*time.Minute)
	or(&k.MaxOpenFiles, 1_000_000)
	or(&k.OOMScoreAdj, new(int32(-999)))
	after(&k.SyncFrequency, time.Minute)
	after(&k.FileCheckFrequency, 20*time.Second)
	after(&k.HTTPCheckFrequency, 20*time.Second)
}

func setNodeDefaults(k *kubeletconfig.KubeletConfiguration) {
	or(&k.RegisterNode, new(true))
	or(&k.ContentType, "application/vnd.kubernetes.protobuf")
	or(&k.KubeAPIQPS, new(int32(50)))
	or(&k.KubeAPIBurst, 100)
	or(&k.EventRecordQPS, new(int32(50)))
	or(&k.EventBurst, 100)
	// A node that looks at itself at a time of its own reports at that time, too.
	after(&k.NodeStatusReportFrequency, k.NodeStatusUpdateFrequency.Duration)
	after(&k.NodeStatusReportFrequency, 5*time.Minute)
	after(&k.NodeStatusUpdateFrequency, 10*time.Second)
	or(&k.NodeLeaseDurationSeconds, 40)
	or(&k.NodeStatusMaxImages, new(int32(50)))
	or(&k.MaxPods, 110)
	or(&k.FailSwapOn, new(true))
	or(&k.FailCgroupV1, new(true))
	or(&k.ConfigMapAndSecretChangeDetectionStrategy, kubeletconfig.WatchChangeDetectionStrategy)
	or(&k.EnableControllerAttachDetach, new(true))
	or(&k.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	after(&k.VolumeStatsAggPeriod, time.Minute)
	or(&k.MakeIPTablesUtilChains, new(true))
	or(&k.IPTablesMasqueradeBit, new(int32(14)))
	or(&k.IPTablesDropBit, new(int32(15)))
	or(&k.HairpinMode, kubeletconfig.PromiscuousBridge)
}

func setImageDefaults(k *kubeletconfig.KubeletConfiguration, gates features.Gates) {
	or(&k.RegistryPullQPS, new(int32(5)))
	or(&k.RegistryBurst, 10)
	after(&k.ImageMinimumGCAge, 2*time.Minute)
	or(&k.ImageGCHighThresholdPercent, new(int32(85)))
	or(&k.ImageGCLowThresholdPercent, new(int32(80)))
	or(&k.SerializeImagePulls, new(k.MaxParallelImagePulls == nil || *k.MaxParallelImagePulls < 2))
	if gates.Enabled("KubeletEnsureSecretPulledImages") {
		or(&k.ImagePullCredentialsVerificationPolicy, kubeletconfig.NeverVerifyPreloadedImages)
	}
}

func setResourceDefaults(k *kubeletconfig.KubeletConfiguration) {
	or(&k.CgroupsPerQOS, new(true))
	or(&k.CgroupDriver, "cgroupfs")
	or(&k.CPUManagerPolicy, "none")
	after(&k.CPUManagerReconcilePeriod, 10*time.Second)
	or(&k.MemoryManagerPolicy, kubeletconfig.NoneMemoryManagerPolicy)
	or(&k.TopologyManagerPolicy, kubeletconfig.NoneTopologyManagerPolicy)
	or(&k.TopologyManagerScope, kubeletconfig.ContainerTopologyManagerScope)
	or(&k.MemoryThrottlingFactor, new(0.9))
	or(&k.MemoryReservationPolicy, kubeletconfig.NoneMemoryReservationPolicy)
	or(&k.LocalStorageCapacityIsolation, new(true))
	after(&k.EvictionPressureTransitionPeriod, 5*time.Minute)
	or(&k.MergeDefaultEvictionSettings, new(false))
	if k.EnforceNodeAllocatable == nil {
		k.EnforceNodeAllocatable = []string{"pods"}
	}
}

func setContainerDefaults(k *kubeletconfig.KubeletConfiguration, gates features.Gates) {
	if k.PodPidsLimit == nil || *k.PodPidsLimit < 0 {
		k.PodPidsLimit = new(int64(-1))
	}
	or(&k.ResolverConfig, new("/etc/resolv.conf"))
	or(&k.CPUCFSQuota, new(true))
	or(&k.CPUCFSQuotaPeriod, &metav1.Duration{Duration: 100 * time.Millisecond})
	or(&k.ContainerLogMaxSize, "10Mi")
	or(&k.ContainerLogMaxFiles, new(int32(5)))
	or(&k.ContainerLogMaxWorkers, new(int32(1)))
	or(&k.ContainerLogMonitorInterval, &metav1.Duration{Duration: 10 * time.Second})
	or(&k.SeccompDefault, new(false))
	or(&k.PodLogsDir, "/var/log/pods")
	if gates.Enabled("KubeletCrashLoopBackOffMax") {
		or(&k.CrashLoopBackOff.MaxContainerRestartPeriod, &metav1.Duration{Duration: 5 * time.Minute})
	}
}

// or sets a field that was not set.
func or[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// after sets a duration that was not set.
func after(to *metav1.Duration, d time.Duration) {
	if to.Duration == 0 {
		to.Duration = d
	}
}
