// Package admit decides whether a pod may run on this node, and if not, why.
//
// There are two kinds of checks. Those of pod and node (name, labels, taints, sysctls, features,
// pressure) do not depend on other pods. Those of room (resources, the number of pods, host ports)
// do: for a critical pod that lacks room, the Decision names the pods to preempt.
//
// It is pure: the pods that run, and the node, are arguments. A rejected pod is Failed with the
// reason and message given here, so both are written for users; where the kubelet has words for
// it, they are the kubelet's, because people search for them. A pod that runs already must not be
// checked again: it might be rejected. That is for the caller to avoid.
package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Node has the properties of the node that pods are checked against. A property that is not set is not
// checked.
type Node struct {
	OS   v1.OSName // empty means linux
	Name string

	// Labels are the labels of the Node object. They are nil without a cluster: then node selectors
	// and node affinity are not checked.
	Labels map[string]string
	Taints []v1.Taint

	// Allocatable are the resources of the node for all pods together. A resource that is not
	// listed has no limit here (it may be a resource of the whole cluster), except for huge
	// pages: the node has none of a size that is not listed.
	Allocatable v1.ResourceList

	// UnsafeSysctls are names and patterns ("net.core.somaxconn", "kernel.msg*")
	// that pods may set besides the safe ones.
	UnsafeSysctls []string
	Kernel        string // its release; some sysctls are safe only with a newer one

	// InCluster says that a scheduler has the last word on resources that are not listed:
	// there may be some that no node has, but all share.
	InCluster bool

	AppArmor bool // the kernel can confine containers by it
	// StrictGroups says that the runtime can keep the groups of an image away from a
	// container.
	StrictGroups bool

	ShuttingDown bool // no pod is admitted any more
	// Pressure are the pressure conditions of the Node that are true.
	Pressure []v1.NodeConditionType

	// ForeignPorts are the ports that pods of other agents on this machine occupy.
	ForeignPorts []ForeignPort
}

// WithNodeObject returns the machine with what its Node object says of it. object is nil without a cluster, or
// before it is known.
func (n Node) WithNodeObject(object *v1.Node) Node {
	if object == nil {
		return n
	}
	n.Labels, n.Taints = object.Labels, object.Spec.Taints
	if len(object.Status.Allocatable) > 0 { // a scheduler goes by it: huge pages may have been added
		n.Allocatable = object.Status.Allocatable
	}
	return n
}

// Rejection says why a pod may not run.
type Rejection struct {
	Reason  string
	Message string
}

// Decision is the result of admission. With both fields empty the pod may run.
type Decision struct {
	Reject *Rejection
	// Preempt are the pods that have to end before this one is started.
	Preempt []*v1.Pod
}

// Reasons that users know from the kubelet.
const (
	reasonNodeShutdown    = "NodeShutdown"
	reasonEvicted         = "Evicted" // the kubelet's word, though it never ran
	reasonOSSelector      = "PodOSSelectorNodeLabelDoesNotMatch"
	reasonNodeName        = "NodeName"
	reasonNodeAffinity    = "NodeAffinity"
	reasonTaintToleration = "TaintToleration"
	reasonSysctlForbidden = "SysctlForbidden"
	reasonAppArmor        = "AppArmor"
	reasonGroupsPolicy    = "SupplementalGroupsPolicyNotSupported"
	reasonOutOf           = "OutOf" // and the name of the resource
)

// Check returns why p may not run beside the pods that run already, or are about to, and nil if it
// may. It preempts no pod.
func Check(p *v1.Pod, running []*v1.Pod, node Node) *Rejection {
	return new(Memo).Check(p, running, node)
}

func decideRoom(p *v1.Pod, others []*tenant, node Node) Decision {
	r := checkRoom(p, others, node)
	if r == nil || !pod.IsCritical(p) {
		return Decision{Reject: r}
	}
	victims, r := preempt(p, others, node)
	return Decision{Reject: r, Preempt: victims}
}

// nodeChecks do not depend on other pods. Sysctls come before features: one that is forbidden
// anyway is not called unsupported.
var nodeChecks = []func(*v1.Pod, Node) *Rejection{
	checkShutdown, checkPressure, checkOS, checkNodeName, checkAffinity, checkTaints, checkSysctls, checkAppArmor, checkGroups, checkFeatures, checkVolumes, checkForeignPorts,
}

func checkNode(p *v1.Pod, node Node) *Rejection {
	for _, check := range nodeChecks {
		if r := check(p, node); r != nil {
			return r
		}
	}
	return nil
}

func checkRoom(p *v1.Pod, others []*tenant, node Node) *Rejection {
	if short := shortages(p, usedBy(others), node); len(short) > 0 {
		return short[0].rejection()
	}
	return checkHostPorts(p, others)
}

func checkShutdown(_ *v1.Pod, node Node) *Rejection {
	if !node.ShuttingDown {
		return nil
	}
	return &Rejection{Reason: reasonNodeShutdown, Message: "Pod was rejected as the node is shutting down."}
}

func checkOS(p *v1.Pod, node Node) *Rejection {
	have := node.OS
	if have == "" {
		have = v1.Linux
	}
	if p.Spec.OS != nil && p.Spec.OS.Name != have {
		return &Rejection{
			Reason:  pod.ReasonPodOSNotSupported,
			Message: fmt.Sprintf("spec.os.name is %q, and this node runs %s", p.Spec.OS.Name, have),
		}
	}
	// The OS is known without any label, so this holds outside of clusters, too.
	if want, ok := p.Spec.NodeSelector[v1.LabelOSStable]; ok && want != string(have) {
		return &Rejection{
			Reason:  reasonOSSelector,
			Message: fmt.Sprintf("spec.nodeSelector wants %s to be %q, and this node runs %s", v1.LabelOSStable, want, have),
		}
	}
	return nil
}
