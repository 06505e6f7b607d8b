package admit

import v1 "k8s.io/api/core/v1"

// decide is Memo.Decide without a memory.
func decide(p *v1.Pod, running []*v1.Pod, node Node) Decision {
	return new(Memo).Decide(p, running, node)
}

// tenants is Memo.tenants without a memory.
func tenants(p *v1.Pod, running []*v1.Pod) []*tenant { return new(Memo).tenants(p, running) }
