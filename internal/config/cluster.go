package config

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
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
	}
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
