package cgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"berth/internal/host/roots"
	"berth/internal/runtime/render"
)

// PodsConfig is checked by NewPods.
type PodsConfig struct {
	Tree *Tree
	// Owner has the cgroup root of this agent, and decides which cgroups may be removed.
	Owner roots.Owner
	// All returns the limits of all pods together, for the machine as it is now. Nil: no limits.
	All func() (render.Cgroup, error)
	Log *slog.Logger
}

// Pods manages the cgroups of pods. Burstable and BestEffort pods are below a cgroup of their QoS
// class, whose CPU shares are the sum of those of its pods.
type Pods struct {
	cfg  PodsConfig
	root string

	mu          sync.Mutex
	shares      map[string]map[string]int64 // shares of pods, by class and path
	classShares map[string]int64            // shares of classes, as written

	allMu     sync.Mutex
	all       render.Cgroup // the limits of all pods together, as written
	unlimited bool          // they could not be written, which is logged
}

// classes are the cgroups of QoS classes below the root.
var classes = []string{"burstable", "besteffort"}

const minShares, maxShares = 2, 262144

// NewPods touches no cgroup yet.
func NewPods(c PodsConfig) (*Pods, error) {
	if c.Tree == nil || c.Log == nil {
		return nil, errors.New("cgroup: a tree and a log are required")
	}
	if err := checkPath(c.Owner.CgroupRoot()); err != nil {
		return nil, err
	}
	return &Pods{cfg: c, root: c.Owner.CgroupRoot(), shares: map[string]map[string]int64{}, classShares: map[string]int64{}}, nil
}

// Make makes the cgroup of a pod, with its limits. It is idempotent. The limits of all pods are
// computed again: the machine may have more resources than before.
func (p *Pods) Make(c render.Cgroup) error {
	p.LimitAll()
	if err := p.cfg.Tree.Make(c.Path); err != nil {
		return err
	}
	if err := p.cfg.Tree.Limit(c); err != nil {
		return err
	}
	class := p.classOf(c.Path)
	if class == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shares[class] == nil {
		p.shares[class] = map[string]int64{}
	}
	p.shares[class][c.Path] = c.Shares
	return p.setClassShares(class)
}

// Remove removes the cgroup of a pod whose containers are gone. A process that is still in it was left
// by an interrupted runtime, and is killed. Where several root directories share a cgroup root,
// another one may have a pod of the same UID: then a cgroup with processes is left alone.
func (p *Pods) Remove(ctx context.Context, path string) error {
	if err := p.cfg.Owner.OwnsCgroup(path); err != nil {
		return err
	}
	if !p.cfg.Owner.AllCgroups() {
		occupied, err := p.cfg.Tree.Occupied(path)
		if err != nil || occupied {
			return err
		}
	}
	killed, err := p.cfg.Tree.kill(path)
	if err != nil {
		return err
	}
	if len(killed) > 0 {
		p.cfg.Log.Warn("killed what was left in the cgroup of a pod", "cgroup", path, "processes", killed)
	}
	if err := p.cfg.Tree.remove(ctx, path); err != nil {
		return err
	}
	class := p.classOf(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.shares[class][path]; !known {
		return nil
	}
	delete(p.shares[class], path)
	return p.setClassShares(class)
}

// classOf returns the class of the cgroup of a pod, or "".
func (p *Pods) classOf(path string) string {
	above := filepath.Dir(path)
	for _, class := range classes {
		if above == filepath.Join(p.root, class) {
			return class
		}
	}
	return ""
}

// setClassShares writes the shares of a class: the sum of its pods, within the limits of the kernel.
// BestEffort has the minimum.
func (p *Pods) setClassShares(class string) error {
	sum := int64(0)
	if class == "burstable" {
		for _, s := range p.shares[class] {
			sum += s
		}
	}
	sum = min(max(minShares, sum), maxShares)
	if p.classShares[class] == sum {
		return nil
	}
	if err := p.cfg.Tree.setShares(filepath.Join(p.root, class), sum); err != nil {
		return err
	}
	p.classShares[class] = sum
	return nil
}

// List returns the names of the cgroups of all pods, in all classes. It returns none if other roots
// may have made some of them.
func (p *Pods) List() ([]string, error) {
	if !p.cfg.Owner.AllCgroups() {
		return nil, nil
	}
	var out []string
	for _, dir := range append([]string{""}, classes...) {
		names, err := p.cfg.Tree.Children(filepath.Join(p.root, dir))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasPrefix(name, "pod") {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// Occupied tells whether a cgroup, by its name from List, has processes.
func (p *Pods) Occupied(name string) (bool, error) {
	for _, dir := range append([]string{""}, classes...) {
		occupied, err := p.cfg.Tree.Occupied(filepath.Join(p.root, dir, name))
		if occupied || err != nil {
			return occupied, err
		}
	}
	return false, nil
}

// RemoveEmpty removes the root and the classes if they have no pods.
func (p *Pods) RemoveEmpty() error {
	if !p.cfg.Owner.OwnsCgroupRoot() {
		return nil
	}
	for _, dir := range append(append([]string(nil), classes...), "") {
		if err := p.cfg.Tree.removeIfEmpty(filepath.Join(p.root, dir)); err != nil {
			return fmt.Errorf("remove cgroups of no pods: %w", err)
		}
	}
	return nil
}
