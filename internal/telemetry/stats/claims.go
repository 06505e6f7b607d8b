package stats

import (
	"context"

	"berth/internal/lib/pod"
)

// Claim is a PersistentVolumeClaim that a pod of this node has mounted.
type Claim struct {
	Namespace, Name string
	Filesystem
}

// Claims measures the claims that are mounted, and nothing else. A claim of several pods is
// returned once.
func (r *Reader) Claims(ctx context.Context) []Claim {
	type name struct{ namespace, claim string }
	seen := map[name]bool{}
	var claims []Claim
	var places []place
	known := map[pod.UID]bool{}
	for _, o := range r.Known() {
		known[o.UID] = o.Running()
	}
	for _, p := range r.Pods() {
		for i := range p.Spec.Volumes {
			claim := p.Spec.Volumes[i].PersistentVolumeClaim
			if claim == nil || !known[p.UID] || seen[name{p.Namespace, claim.ClaimName}] {
				continue
			}
			if path, ok := r.Volume(p.UID, p.Spec.Volumes[i].Name); ok {
				seen[name{p.Namespace, claim.ClaimName}] = true
				claims = append(claims, Claim{Namespace: p.Namespace, Name: claim.ClaimName})
				places = append(places, place{path: path})
			}
		}
	}
	var out []Claim
	for i, f := range r.files.measure(ctx, places) {
		if f != nil {
			claims[i].Filesystem = *f
			out = append(out, claims[i])
		}
	}
	return out
}
