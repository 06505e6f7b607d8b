package config

import (
	"crypto/tls"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Kubelet returns the configuration in force as a KubeletConfiguration, for /configz. Fields that
// berth does not honour are not in it, nor are the secrets in the manifest URL, and the headers
// for it. That of an agent which was started as kubelet is complete, so that programs can change it and write it back.
func (c *Config) Kubelet() *kubeletconfig.KubeletConfiguration {
	if c.complete != nil {
		return c.complete.DeepCopy()
	}
	k := &kubeletconfig.KubeletConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		StaticPodPath:            c.ManifestDir,
		FileCheckFrequency:       metav1.Duration{Duration: c.ManifestCheck},
		StaticPodURL:             c.ManifestURL.String(),
		HTTPCheckFrequency:       metav1.Duration{Duration: c.URLCheck},
		ContainerRuntimeEndpoint: c.RuntimeEndpoint,
		ImageServiceEndpoint:     c.ImageEndpoint,
		RuntimeRequestTimeout:    metav1.Duration{Duration: c.RuntimeTimeout},
		CgroupRoot:               c.CgroupRoot,
		PodLogsDir:               c.PodLogsDir,
		SerializeImagePulls:      new(c.ParallelPulls == 1),
		MaxParallelImagePulls:    new(int32(c.ParallelPulls)), // it was an int32 when it was read
		CrashLoopBackOff:         kubeletconfig.CrashLoopBackOffConfig{MaxContainerRestartPeriod: &metav1.Duration{Duration: c.Backoff.Max}},
		OOMScoreAdj:              new(int32(c.OOMScore)), // it was checked when it was read
		AllowedUnsafeSysctls:     c.UnsafeSysctls,
		ClusterDNS:               c.ClusterDNS,
		ClusterDomain:            c.ClusterDomain,
	}
	if c.PodCIDR.IsValid() {
		k.PodCIDR = c.PodCIDR.String()
	}
	k.EnforceNodeAllocatable = c.Cgroups.enforcements(!c.LendReserved)
	setNumber(&k.Logging.Verbosity, c.Verbosity)
	for _, p := range c.Shutdown {
		k.ShutdownGracePeriodByPodPriority = append(k.ShutdownGracePeriodByPodPriority, kubeletconfig.ShutdownGracePeriodByPodPriority{
			Priority: p.Priority, ShutdownGracePeriodSeconds: int64(p.For.Seconds()),
		})
	}
	c.Cgroups.writeTo(k)
	c.Images.writeTo(k)
	c.Pressure.writeTo(k)
	c.Cluster.writeTo(k)
	c.API.writeTo(k)
	return k
}

// The numbers were int32 when they were read.
func (c Cluster) writeTo(k *kubeletconfig.KubeletConfiguration) {
	k.RegisterNode, k.RegisterWithTaints, k.ProviderID = &c.Register, c.Taints, c.ProviderID
	k.MaxPods, k.PodsPerCore, k.NodeStatusMaxImages = int32(c.MaxPods), int32(c.PodsPerCore), new(int32(c.MaxImages))
	k.NodeLeaseDurationSeconds = int32(c.Lease.Seconds())
	k.NodeStatusUpdateFrequency.Duration, k.NodeStatusReportFrequency.Duration = c.StatusUpdate, c.StatusReport
	k.KubeAPIQPS, k.KubeAPIBurst, k.ContentType = new(int32(c.QPS)), int32(c.Burst), c.ContentType
	k.EventRecordQPS, k.EventBurst = new(int32(max(c.EventQPS, 0))), int32(c.EventBurst)
	k.RotateCertificates, k.ServerTLSBootstrap = c.Rotate, c.ServingBootstrap
	k.TLSCertFile, k.TLSPrivateKeyFile = c.TLSCert, c.TLSKey
}

// The numbers were int32 when they were read.
func (a API) writeTo(k *kubeletconfig.KubeletConfiguration) {
	k.EnableServer = new(a.Port != 0 || a.ReadOnlyPort != 0)
	k.Address, k.Port, k.ReadOnlyPort = a.Address.String(), int32(a.Port), int32(a.ReadOnlyPort)
	k.HealthzBindAddress, k.HealthzPort = a.HealthzAddress.String(), new(int32(a.HealthzPort))
	for name, v := range tlsVersions {
		if name != "" && v == a.MinTLS {
			k.TLSMinVersion = name
		}
	}
	for _, id := range a.Ciphers {
		k.TLSCipherSuites = append(k.TLSCipherSuites, tls.CipherSuiteName(id))
	}
	for _, id := range a.Curves {
		k.TLSCurvePreferences = append(k.TLSCurvePreferences, int32(id))
	}
	k.Authentication.X509.ClientCAFile = a.ClientCA
	k.Authentication.Anonymous.Enabled = &a.Anonymous
	k.Authentication.Webhook.Enabled, k.Authentication.Webhook.CacheTTL.Duration = &a.Tokens, a.TokenTTL
	k.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	if a.AlwaysAllow {
		k.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeAlwaysAllow
	}
	k.Authorization.Webhook.CacheAuthorizedTTL.Duration, k.Authorization.Webhook.CacheUnauthorizedTTL.Duration = a.AllowedTTL, a.DeniedTTL
	k.EnableDebuggingHandlers, k.EnableSystemLogHandler, k.EnableSystemLogQuery = &a.Debugging, &a.SystemLogs, &a.SystemLogQuery
	k.EnableProfilingHandler, k.EnableDebugFlagsHandler = &a.Profiling, &a.DebugFlags
	k.StreamingConnectionIdleTimeout.Duration = a.StreamIdle
}

// setNumber saves the import of a package for the name of its type.
func setNumber[T ~uint32](to *T, n int) { *to = T(max(n, 0)) } // it was a number of that size when it was read
