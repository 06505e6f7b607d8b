package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/cluster/shutdown"
)

func (l *loader) cluster(f Flags, k *kubeletconfig.KubeletConfiguration) Cluster {
	c := Cluster{
		Kubeconfig:   l.path("--kubeconfig", f.Kubeconfig),
		Register:     k.RegisterNode == nil || *k.RegisterNode,
		Labels:       f.NodeLabels,
		Taints:       k.RegisterWithTaints,
		MaxPods:      l.atLeast("maxPods", first(int(k.MaxPods), defaultMaxPods), 1),
		Lease:        time.Duration(k.NodeLeaseDurationSeconds) * time.Second,
		StatusUpdate: l.duration("nodeStatusUpdateFrequency", k.NodeStatusUpdateFrequency, defaultStatusUpdate),
		StatusReport: l.duration("nodeStatusReportFrequency", k.NodeStatusReportFrequency, defaultStatusReport),
		QPS:          defaultQPS,
		Burst:        l.atLeast("kubeAPIBurst", first(int(k.KubeAPIBurst), defaultBurst), 1),
		Bootstrap:    l.path("--bootstrap-kubeconfig", f.Bootstrap),
		ProviderID:   first(f.ProviderID, k.ProviderID),
		PodsPerCore:  l.atLeast("podsPerCore", int(k.PodsPerCore), 0),
		MaxImages:    defaultMaxImages,
		EventQPS:     defaultEventQPS,
		EventBurst:   first(int(k.EventBurst), defaultEventBurst),
		ContentType:  k.ContentType,
	}
	c.ExternalCloud = f.ExternalCloud
	if k.NodeStatusMaxImages != nil {
		c.MaxImages = int(*k.NodeStatusMaxImages)
	}
	if k.EventRecordQPS != nil {
		c.EventQPS = int(*k.EventRecordQPS)
		if c.EventQPS == 0 {
			c.EventQPS = -1 // the kubelet's word for no limit
		}
	}
	if len(f.Taints) > 0 {
		c.Taints = l.taints(f.Taints)
	}
	l.certificates(&c, f, k)
	if k.KubeAPIQPS != nil {
		c.QPS = l.atLeast("kubeAPIQPS", int(*k.KubeAPIQPS), 1)
	}
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Lease < 0 {
		l.fail("nodeLeaseDurationSeconds", fmt.Sprint(k.NodeLeaseDurationSeconds), "must not be negative")
	}
	for key, value := range c.Labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			l.fail("--node-labels", key+"="+value, "not a label: %s", problems[0])
		}
	}
	return c
}

// certificates reads the settings of the node's certificates.
func (l *loader) certificates(c *Cluster, f Flags, k *kubeletconfig.KubeletConfiguration) {
	c.CertDir = l.path("--cert-dir", first(f.CertDir, filepath.Join(l.rootDir, "pki")))
	c.TLSCert = l.path("tlsCertFile", k.TLSCertFile)
	c.TLSKey = l.path("tlsPrivateKeyFile", k.TLSPrivateKeyFile)
	c.ServingBootstrap = k.ServerTLSBootstrap
	// A node that bootstraps its certificate has to live longer than the first one. A kubelet renews it only if
	// rotateCertificates says so.
	c.Rotate = k.RotateCertificates || c.Bootstrap != "" && !l.asKubelet
	if c.Bootstrap != "" && c.Kubeconfig == "" {
		l.fail("--bootstrap-kubeconfig", c.Bootstrap, "give --kubeconfig, too: it says where the kubeconfig is to be written")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		l.fail("tlsCertFile, tlsPrivateKeyFile", c.TLSCert+c.TLSKey, "one is of no use without the other")
	}
	if c.ServingBootstrap && c.TLSCert != "" {
		l.fail("serverTLSBootstrap", "true", "the node can't both ask for a certificate and use tlsCertFile")
	}
}

// taints reads taints as kubectl writes them: key=value:effect or key:effect.
func (l *loader) taints(given []string) []v1.Taint {
	var out []v1.Taint
	for _, text := range given {
		what, effect, found := strings.Cut(text, ":")
		key, value, _ := strings.Cut(what, "=")
		t := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
		effects := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if !found || len(problems) > 0 || !slices.Contains(effects, t.Effect) {
			l.fail("--register-with-taints", text, "not a taint: want key=value:NoSchedule, PreferNoSchedule or NoExecute")
		}
		out = append(out, t)
	}
	return out
}

// reserved adds up what the system and the agent keep for themselves. Mistakes were found by cgroups.
func (l *loader) reserved(c Cgroups) v1.ResourceList {
	out := v1.ResourceList{}
	for _, list := range []v1.ResourceList{c.KubeReserved.Resources, c.SystemReserved.Resources} {
		for name, amount := range list {
			sum := out[name]
			sum.Add(amount)
			out[name] = sum
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// resources reads amounts that are reserved.
func (l *loader) resources(setting string, list map[string]string) v1.ResourceList {
	out := v1.ResourceList{}
	for name, amount := range list {
		q, err := resource.ParseQuantity(amount)
		known := []string{string(v1.ResourceCPU), string(v1.ResourceMemory), string(v1.ResourceEphemeralStorage), "pid"}
		if err != nil || q.Sign() < 0 || !slices.Contains(known, name) {
			l.fail(setting, name+": "+amount, "want amounts of cpu, memory, ephemeral-storage or pid, such as 500m or 1Gi")
			continue
		}
		out[v1.ResourceName(name)] = q
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// shutdown reads how long pods may take to end when the machine goes down.
func (l *loader) shutdown(k *kubeletconfig.KubeletConfiguration) []shutdown.Period {
	periods, err := shutdown.Periods(k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration, k.ShutdownGracePeriodByPodPriority)
	if err != nil {
		l.errs = append(l.errs, err)
	}
	return periods
}
