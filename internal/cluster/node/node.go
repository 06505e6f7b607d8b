// Package node shows this machine to a cluster: it registers it as a Node, keeps
// the status of the Node true, and renews the Lease that says it lives.
//
// Pure functions decide on the contents of the Node: Build, Status, and statusPatch for the
// difference. A Reporter does the rest. Four goroutines of its own read the facts of the machine,
// write the Node, renew the Lease, and watch the Node for changes by other programs, so that a
// runtime or a server that hangs holds up nothing else. A ReadinessMonitor checks the runtime,
// and a PressureMonitor measures how much is left of the machine's resources: both report to
// the Reporter.
//
// Only the Reporter writes the Node. It keeps the API server's last answer, and compares with
// that: a patch holds the difference, the answer shows what other programs changed meanwhile, and
// no read goes before a write. Only after a write has failed, or when an event hints at a change,
// is the Node read again. Other packages read it from here (Reporter.Node): it is never changed
// in place, but replaced. Labels, taints, conditions and resources of other programs stay.
package node

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Labels that Kubernetes deprecated and kubelets still set, because selectors use them.
const (
	labelBetaOS   = "beta.kubernetes.io/os"
	labelBetaArch = "beta.kubernetes.io/arch"
)

// attachAnnotation says that the cluster, and not the node, attaches volumes.
const attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// Settings configure the Node of this machine.
type Settings struct {
	Name    string
	Version string // berth's own

	// Labels, Taints and ProviderID are set when the Node is created. On a Node that exists
	// they belong to the cluster.
	Labels     map[string]string
	Taints     []v1.Taint
	ProviderID string

	// DeclaredFeatures are the features of this node that the cluster asks for before it uses them, sorted by name.
	DeclaredFeatures []string

	// ExternalCloud says that a cloud controller manager completes the Node: it removes a taint, and its addresses take the
	// place of ours.
	ExternalCloud bool
	// NodeIPs are the addresses that were set by hand. A single unspecified one only prefers its family.
	NodeIPs []netip.Addr

	Hostname  string // empty: Name
	Port      int32  // of the node's API; zero: there is none
	MaxImages int    // zero: 50; negative: all

	MaxPods     int64 // zero: 110
	PodsPerCore int64 // zero: does not matter
	// Reserved are the resources that pods can't request: they are for the system and for berth.
	Reserved v1.ResourceList
	// Limits are the eviction thresholds, which are not allocatable either.
	Limits Thresholds
}

// check returns an error for settings that no API server would accept.
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

// Build returns the Node of a machine that the cluster does not know yet.
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
			Annotations: annotations(s),
		},
		Spec:   v1.NodeSpec{Taints: taints(s), ProviderID: s.ProviderID},
		Status: Status(f, s, h, v1.NodeStatus{}, now),
	}
}

// StandaloneLabels returns the labels of a node without a cluster: local volumes select by them.
func StandaloneLabels(name string) map[string]string {
	return map[string]string{v1.LabelHostname: name, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH}
}

// kept are the labels that a node keeps to its own values while it exists. All other labels are
// set once, and then belong to the administrator of the cluster.
var kept = []string{
	v1.LabelHostname, v1.LabelOSStable, v1.LabelArchStable, labelBetaOS, labelBetaArch,
	v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelInstanceTypeStable,
	v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelInstanceType,
}
