package kubelet

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"berth/internal/config/features"
)

// validator collects the errors for which a kubelet would not start. Ranges that are checked for 'berth run', too,
// are checked in package config.
type validator struct {
	gates features.Gates
	errs  []error
}

// want adds an error unless ok. It names the field, and its flag if there is one.
func (v *validator) want(ok bool, path, format string, args ...any) {
	if !ok {
		v.errs = append(v.errs, fmt.Errorf("invalid configuration: %s%s %s", path, flagOf(path), fmt.Sprintf(format, args...)))
	}
}

// needsGate adds an error if a field is set and its feature is off.
func (v *validator) needsGate(set bool, path, gate string) {
	v.want(!set || v.gates.Enabled(gate), path, "requires feature gate %s", gate)
}

// validate returns all errors for which a kubelet would refuse a complete configuration on this
// machine.
func validate(k *kubeletconfig.KubeletConfiguration, gates features.Gates, m Machine) error {
	v := &validator{gates: gates}
	v.machine(k, m)
	v.numbers(k)
	v.node(k)
	v.enforcement(k)
	v.resources(k)
	v.shutdown(k)
	v.images(k)
	v.logs(k)
	return errors.Join(v.errs...)
}

func (v *validator) machine(k *kubeletconfig.KubeletConfiguration, m Machine) {
	v.want(!m.CgroupV1 || !*k.FailCgroupV1, "failCgroupV1", "is true, and this machine has cgroup v1: set it to false to run nevertheless")
	v.want(!m.CgroupV1 || k.SingleProcessOOMKill == nil || *k.SingleProcessOOMKill, "singleProcessOOMKill", "can't be false on cgroup v1")
	v.want(!m.Swap || !*k.FailSwapOn, "failSwapOn", "is true, and this machine uses swap: turn swap off, or set it to false")
}

func (v *validator) numbers(k *kubeletconfig.KubeletConfiguration) {
	v.want(k.EventBurst >= 0, "eventBurst", "must not be negative")
	v.want(*k.EventRecordQPS >= 0, "eventRecordQPS", "must not be negative")
	v.want(*k.KubeAPIQPS >= 0, "kubeAPIQPS", "must not be negative")
	v.want(*k.NodeStatusMaxImages >= -1, "nodeStatusMaxImages", "must be -1 or greater")
	v.want(k.MaxOpenFiles >= 0, "maxOpenFiles", "must not be negative")
	const bits = 31
	v.want(*k.IPTablesDropBit >= 0 && *k.IPTablesDropBit <= bits, "iptablesDropBit", "must be between 0 and %d", bits)
	v.want(*k.IPTablesMasqueradeBit >= 0 && *k.IPTablesMasqueradeBit <= bits, "iptablesMasqueradeBit", "must be between 0 and %d", bits)
	v.want(*k.ContainerLogMaxWorkers >= 1, "containerLogMaxWorkers", "must be 1 or more")
	v.want(k.ContainerLogMonitorInterval.Duration >= 3*time.Second, "containerLogMonitorInterval", "must be 3s or more")
	v.want(*k.ContainerLogMaxFiles > 1, "containerLogMaxFiles", "must be greater than 1")
	v.needsGate(k.CPUCFSQuotaPeriod.Duration != 100*time.Millisecond, "cpuCFSQuotaPeriod", "CustomCPUCFSQuotaPeriod")
}

func (v *validator) node(k *kubeletconfig.KubeletConfiguration) {
	v.want(!k.RunOnce, "runOnce", "is no longer supported")
	v.needsGate(k.ServerTLSBootstrap, "serverTLSBootstrap", "RotateKubeletServerCertificate")
	for _, t := range k.RegisterWithTaints {
		problems := append(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)...)
		effects := []v1.TaintEffect{"", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
		v.want(len(problems) == 0 && slices.Contains(effects, t.Effect), "registerWithTaints", "has an invalid taint: %s", t.ToString())
		v.want(t.TimeAdded == nil, "registerWithTaints", "can't say when a taint was added")
	}
	v.oneOf("hairpinMode", k.HairpinMode, kubeletconfig.HairpinNone, kubeletconfig.HairpinVeth, kubeletconfig.PromiscuousBridge)
	query := k.EnableSystemLogQuery != nil && *k.EnableSystemLogQuery
	v.needsGate(query, "enableSystemLogQuery", "NodeLogQuery")
	v.want(!query || *k.EnableSystemLogHandler, "enableSystemLogQuery", "requires enableSystemLogHandler")
	if text := k.ShowHiddenMetricsForVersion; text != "" {
		v.want(text == previousMinor, "showHiddenMetricsForVersion", "must be omitted or have the value %q", previousMinor)
	}
	for _, err := range tracingapi.ValidateTracingConfiguration(k.Tracing, nil, field.NewPath("tracing")) {
		v.errs = append(v.errs, err)
	}
}

// oneOf adds an error for a value that is not among the known ones.
func (v *validator) oneOf(path, value string, known ...string) {
	v.want(slices.Contains(known, value), path, "%q must be one of %q", value, known)
}

func (v *validator) images(k *kubeletconfig.KubeletConfiguration) {
	v.needsGate(k.ImageMaximumGCAge.Duration != 0, "imageMaximumGCAge", "ImageMaximumGCAge")
	v.needsGate(k.ImagePullCredentialsVerificationPolicy != "", "imagePullCredentialsVerificationPolicy", "KubeletEnsureSecretPulledImages")
	v.needsGate(len(k.PreloadedImagesVerificationAllowlist) > 0, "preloadedImagesVerificationAllowlist", "KubeletEnsureSecretPulledImages")
	v.needsGate(k.CrashLoopBackOff.MaxContainerRestartPeriod != nil, "crashLoopBackOff.maxContainerRestartPeriod", "KubeletCrashLoopBackOffMax")
}

func (v *validator) logs(k *kubeletconfig.KubeletConfiguration) {
	v.want(filepath.IsAbs(k.PodLogsDir) && filepath.Clean(k.PodLogsDir) == k.PodLogsDir, "podLogsDir", "%q must be an absolute path without . and ..", k.PodLogsDir)
	v.want(!strings.ContainsFunc(k.PodLogsDir, func(r rune) bool { return r > 127 }), "podLogsDir", "%q must have ASCII characters only", k.PodLogsDir)
	v.oneOf("logging.format", k.Logging.Format, FormatText, FormatJSON)
	v.want(k.Logging.FlushFrequency.Duration.Duration > 0, "logging.flushFrequency", "must be greater than zero")
	v.want(len(k.Logging.VModule) == 0 || k.Logging.Format == FormatText, "logging.vmodule", "is for the format text only")
}

// Formats of the log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// validateFlags returns the errors for which a kubelet would refuse flags that set no field.
func validateFlags(c *CommandLine) error {
	v := &validator{}
	for name, value := range c.Labels() {
		namespace, _, found := strings.Cut(name, "/")
		ours := found && (namespace == "kubernetes.io" || strings.HasSuffix(namespace, ".kubernetes.io") || namespace == "k8s.io" || strings.HasSuffix(namespace, ".k8s.io"))
		if ours && !kubeletapis.IsKubeletLabel(name) {
			v.errs = append(v.errs, fmt.Errorf("--node-labels: %q: in the namespaces kubernetes.io and k8s.io, a node may only set labels below %s, or any of %s",
				name, strings.Join(kubeletapis.KubeletLabelNamespaces(), ", "), strings.Join(kubeletapis.KubeletLabels(), ", ")))
		}
		if problems := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			v.errs = append(v.errs, fmt.Errorf("--node-labels: %q: %s", name+"="+value, strings.Join(problems, "; ")))
		}
	}
	if provider := c.String("cloud-provider"); provider != "" && provider != "external" {
		v.errs = append(v.errs, fmt.Errorf("--cloud-provider: %q: in-tree cloud providers are gone: want external, or nothing", provider))
	}
	return errors.Join(v.errs...)
}
