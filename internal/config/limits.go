package config

import (
	"fmt"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

const (
	defaultResolvConf = "/etc/resolv.conf"
	// A CPU quota is counted over periods that the kernel accepts.
	minCPUPeriod, maxCPUPeriod = time.Millisecond, time.Second
	// The agent goes after all pods, and before what the machine can't do without.
	defaultOOMScore = -999
	// idsStep is the unit of the number of IDs of a pod in a user namespace.
	idsStep = 65536
)

// limits reads how containers are limited and confined, and what is traced of them.
func (l *loader) limits(c *Config, k *kubeletconfig.KubeletConfiguration) {
	c.NoCPUQuota = k.CPUCFSQuota != nil && !*k.CPUCFSQuota
	if k.CPUCFSQuotaPeriod != nil {
		c.CPUPeriod = k.CPUCFSQuotaPeriod.Duration
		if c.CPUPeriod < minCPUPeriod || c.CPUPeriod > maxCPUPeriod {
			l.fail("cpuCFSQuotaPeriod", c.CPUPeriod.String(), "must be between %s and %s", minCPUPeriod, maxCPUPeriod)
		}
	}
	if k.PodPidsLimit != nil && *k.PodPidsLimit > 0 { // the kubelet's -1 is for no limit
		c.PodPIDs = *k.PodPidsLimit
	}
	c.OOMScore = defaultOOMScore
	if k.OOMScoreAdj != nil {
		c.OOMScore = int(*k.OOMScoreAdj)
		if c.OOMScore < -1000 || c.OOMScore > 1000 {
			l.fail("oomScoreAdj", fmt.Sprint(c.OOMScore), "must be between -1000 and 1000")
		}
	}
	c.SeccompDefault = k.SeccompDefault != nil && *k.SeccompDefault
	if k.UserNamespaces != nil && k.UserNamespaces.IDsPerPod != nil {
		n := *k.UserNamespaces.IDsPerPod
		if n <= 0 || n%idsStep != 0 || n > 1<<31 {
			l.fail("userNamespaces.idsPerPod", fmt.Sprint(n), "must be a multiple of %d", idsStep)
		} else {
			c.IDsPerPod = uint32(n)
		}
	}
	if k.Tracing != nil {
		c.Tracing = &Tracing{}
		if k.Tracing.Endpoint != nil {
			c.Tracing.Endpoint = *k.Tracing.Endpoint
		}
		if k.Tracing.SamplingRatePerMillion != nil {
			c.Tracing.PerMillion = *k.Tracing.SamplingRatePerMillion
		}
		if c.Tracing.PerMillion < 0 || c.Tracing.PerMillion > 1_000_000 {
			l.fail("tracing.samplingRatePerMillion", fmt.Sprint(c.Tracing.PerMillion), "must be between 0 and 1000000")
		}
	}
	c.ResolvConf = defaultResolvConf
	if k.ResolverConfig != nil {
		c.ResolvConf = l.path("resolvConf", *k.ResolverConfig)
	}
}
