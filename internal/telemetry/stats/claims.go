package stats

import (
	"context"
	"path/filepath"

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

// Log is the size of the logs of a container.
type Log struct {
	UID                       pod.UID
	Namespace, Pod, Container string
	Filesystem
}

// Logs measures the logs of the containers that run, and nothing else.
func (r *Reader) Logs(ctx context.Context) []Log {
	var logs []Log
	var places []place
	for _, o := range r.Known() {
		for _, c := range o.Containers {
			if c.State == pod.ContainerRunning && c.LogPath != "" {
				logs = append(logs, Log{UID: o.UID, Namespace: o.Namespace, Pod: o.Name, Container: c.Name})
				places = append(places, place{filepath.Dir(c.LogPath), true})
			}
		}
	}
	var out []Log
	for i, f := range r.files.measure(ctx, places) {
		if f != nil {
			logs[i].Filesystem = *f
			out = append(out, logs[i])
		}
	}
	return out
}
