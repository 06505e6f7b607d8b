package admit

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"berth/internal/lib/pod"
)

// preempt chooses the pods that have to go so that a critical one fits beside
// the rest. If it would not fit even without all of those that may be chosen, none
// is, and what stands in its way is returned.
//
//   - Critical pods, and thus static ones, are never chosen. All others rank below
//     a critical pod, so their priority matters only among themselves.
//   - Pods that hold a wanted host port are chosen in any case.
//   - Then the pod worth least is chosen (see compareWorth) until enough is free. Among equals it
//     is the one that frees most of what is missing; of several that free all of it,
//     the one that wastes least; then the youngest.
//   - At the end, each chosen pod without which enough is free is dropped again, the one worth
//     most first: a large pod may have made the small ones before it needless.
func preempt(p *v1.Pod, others []*tenant, node Node) ([]*v1.Pod, *Rejection) {
	var holders, candidates []*tenant
	wanted := HostPorts(p)
	for _, t := range others {
		port, taken := firstClash(wanted, t)
		switch {
		case taken && pod.IsCritical(t.Pod):
			return nil, portTaken(port, t)
		case taken:
			holders = append(holders, t)
		case !pod.IsCritical(t.Pod):
			candidates = append(candidates, t)
		}
	}
	short := freed(shortages(p, usedBy(others), node), holders...)
	if left := freed(short, candidates...); len(left) > 0 {
		return nil, left[0].rejection()
	}
	chosen := dropNeedless(choose(candidates, short), short)
	var victims []*v1.Pod
	for _, t := range slices.SortedFunc(slices.Values(append(holders, chosen...)), cheaper) {
		victims = append(victims, t.Pod)
	}
	return victims, nil
}

// choose picks candidates until nothing is short. All of them together are enough.
func choose(candidates []*tenant, short []shortage) []*tenant {
	var chosen []*tenant
	for len(short) > 0 {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(t *tenant) bool { return !helps(t, short) })
		next := slices.MinFunc(candidates, func(a, b *tenant) int {
			coverA, wasteA := share(a, short)
			coverB, wasteB := share(b, short)
			return cmp.Or(compareWorth(a, b), cmp.Compare(coverB, coverA), cmp.Compare(wasteA, wasteB), cheaper(a, b))
		})
		candidates = slices.DeleteFunc(candidates, func(t *tenant) bool { return t == next })
		short = freed(short, next)
		chosen = append(chosen, next)
	}
	return chosen
}

// dropNeedless drops the chosen pods without which nothing would be short either. Small ones are
// dropped before large ones of the same worth, so that more are.
func dropNeedless(chosen []*tenant, short []shortage) []*tenant {
	byValue := slices.SortedFunc(slices.Values(chosen), func(a, b *tenant) int {
		_, sizeA := share(a, short)
		_, sizeB := share(b, short)
		return cmp.Or(compareWorth(b, a), cmp.Compare(sizeA, sizeB), cheaper(b, a))
	})
	for _, t := range byValue {
		rest := slices.DeleteFunc(slices.Clone(chosen), func(other *tenant) bool { return other == t })
		if len(freed(short, rest...)) == 0 {
			chosen = rest
		}
	}
	return chosen
}

// helps reports whether the end of t would free any of what is short.
func helps(t *tenant, short []shortage) bool {
	return slices.ContainsFunc(short, func(s shortage) bool {
		amount := t.requests[s.name]
		return amount.Sign() > 0
	})
}

// share measures what t holds by what is missing: how much of that it would
// cover, and how much it is in all. All short resources weigh the same.
func share(t *tenant, short []shortage) (covered, size float64) {
	for _, s := range short {
		amount := t.requests[s.name]
		part := amount.AsApproximateFloat64() / s.missing.AsApproximateFloat64()
		covered += min(1, part)
		size += part
	}
	return covered, size
}

// cheaper orders pods by how little is lost with them. No two are equal.
func cheaper(a, b *tenant) int {
	return cmp.Or(compareWorth(a, b), pod.Created(b.Pod).Compare(pod.Created(a.Pod)), cmp.Compare(a.UID, b.UID))
}

// compareWorth orders pods: those that are being deleted come first, then by QoS class, then by
// priority.
func compareWorth(a, b *tenant) int {
	return cmp.Or(
		cmp.Compare(staying(a), staying(b)),
		cmp.Compare(a.class, b.class),
		cmp.Compare(corev1.PodPriority(a.Pod), corev1.PodPriority(b.Pod)),
	)
}

// staying is 0 for a pod that is being deleted, and 1 for any other.
func staying(t *tenant) int {
	if t.DeletionTimestamp != nil {
		return 0
	}
	return 1
}

// classes are ordered from the one that is promised nothing.
var classes = []v1.PodQOSClass{v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed}
