// Package admit decides whether a pod may run on this node, and if not, why.
//
// It is pure, and knows nothing of what is running beyond what it is handed. A
// rejected pod is Failed with the reason and message given here, so both are
// written for the one who reads the status. Who asks again about a pod that runs
// already does it harm: that is for the caller to avoid.
package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// Node is what admission has to know of the machine.
type Node struct {
	OS v1.OSName // empty means linux
}

// Rejection says why a pod may not run.
type Rejection struct {
	Reason  string
	Message string
}

// Check tells whether p may run beside the pods that run already, or are about
// to. It returns nil if so.
func Check(p *v1.Pod, running []*v1.Pod, node Node) *Rejection {
	if r := checkOS(p, node); r != nil {
		return r
	}
	if r := checkFeatures(p); r != nil {
		return r
	}
	return checkHostPorts(p, running)
}

func checkOS(p *v1.Pod, node Node) *Rejection {
	have := node.OS
	if have == "" {
		have = v1.Linux
	}
	if p.Spec.OS == nil || p.Spec.OS.Name == have {
		return nil
	}
	return &Rejection{
		Reason:  pod.ReasonPodOSNotSupported,
		Message: fmt.Sprintf("spec.os.name is %q, and this node runs %s", p.Spec.OS.Name, have),
	}
}
