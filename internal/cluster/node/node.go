// Package node shows this machine to a cluster: it registers it as a Node, keeps
// the status of the Node true, and renews the Lease that says it lives.
//
// What the Node is to say is decided by pure functions: Build, Status and the
// patches that lead there. A Reporter does the rest. Four goroutines of its own
// look at the machine, write the Node, renew the Lease, and watch what others do to
// the Node, so that a runtime or a server that hangs holds up nothing else. Readiness
// asks the runtime how it is, and Gauge measures what is left of the machine: both tell
// the Reporter.
//
// The Reporter is the only one here that writes the Node. It keeps what the
// server last answered, and compares with that: a patch says what differs, the
// answer shows what others changed meanwhile, and no read goes before a write. Only
// after a write has failed, or when something hints at a change, is the Node read
// again. Others read it from here (Node): it is never written to, but replaced. What others put on it (labels, taints, conditions, resources) stays.
package node

import (
	"fmt"
	"maps"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Labels that Kubernetes calls outdated and kubelets still set: selectors in the
// field use them.
const (
	labelBetaOS   = "beta.kubernetes.io/os"
	labelBetaArch = "beta.kubernetes.io/arch"
)

// attachAnnotation says that the cluster, and not the node, attaches volumes.
const attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// Settings are what the owner of this machine wants its Node to be.
type Settings struct {
	Name    string
	Version string // berth's own

	// Labels, Taints and ProviderID are given to a Node when it is made. On one
	// that exists they belong to the cluster.
	Labels     map[string]string
	Taints     []v1.Taint
	ProviderID string

	Hostname  string // empty: Name
	Port      int32  // of the node's API; zero: there is none
	MaxImages int    // zero: 50; negative: all

	MaxPods     int64 // zero: 110
	PodsPerCore int64 // zero: does not matter
	// Reserved is what pods can't have: it is for the system and for berth.
	Reserved v1.ResourceList
	// Limits are how much of memory and disk has to be left, and so can't be given
	// out either.
	Limits Thresholds
}

// check says what no API server would accept.
func (s Settings) check() error {
	if problems := validation.IsDNS1123Subdomain(s.Name); len(problems) > 0 {
		return fmt.Errorf("node name %q: %s", s.Name, problems[0])
	}
	for key, value := range s.Labels {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("node label %q: %s", key, problems[0])
		}
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return fmt.Errorf("value %q of node label %s: %s", value, key, problems[0])
		}
	}
	for _, t := range s.Taints {
		if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
			return fmt.Errorf("node taint %q: %s", t.Key, problems[0])
		}
		switch t.Effect {
		case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		default:
			return fmt.Errorf("node taint %s: effect %q is none of NoSchedule, PreferNoSchedule and NoExecute", t.Key, t.Effect)
		}
	}
	if s.MaxPods < 0 || s.PodsPerCore < 0 || s.Port < 0 {
		return fmt.Errorf("node: MaxPods %d, PodsPerCore %d and Port %d can't be negative", s.MaxPods, s.PodsPerCore, s.Port)
	}
	return nil
}

func (s Settings) hostname() string {
	if s.Hostname != "" {
		return s.Hostname
	}
	return s.Name
}

// Build is the Node of a machine that the cluster does not know yet.
func Build(f Facts, s Settings, h Health, now time.Time) *v1.Node {
	labels := map[string]string{
		v1.LabelHostname:   s.hostname(),
		v1.LabelOSStable:   runtime.GOOS,
		v1.LabelArchStable: runtime.GOARCH,
		labelBetaOS:        runtime.GOOS,
		labelBetaArch:      runtime.GOARCH,
	}
	maps.Copy(labels, s.Labels)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        s.Name,
			Labels:      labels,
			Annotations: map[string]string{attachAnnotation: "true"},
		},
		Spec:   v1.NodeSpec{Taints: s.Taints, ProviderID: s.ProviderID},
		Status: Status(f, s, h, v1.NodeStatus{}, now),
	}
}

// StandaloneLabels are the labels that a node without a cluster has: those that local volumes select by.
func StandaloneLabels(name string) map[string]string {
	return map[string]string{v1.LabelHostname: name, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH}
}

// kept are the labels that a node keeps to its own values while it exists. The
// others are given once, and then belong to whoever manages the cluster.
var kept = []string{
	v1.LabelHostname, v1.LabelOSStable, v1.LabelArchStable, labelBetaOS, labelBetaArch,
	v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelInstanceTypeStable,
	v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelInstanceType,
}
