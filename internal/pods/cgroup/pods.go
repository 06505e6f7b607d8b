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

// PodsConfig is what Pods is made of.
type PodsConfig struct {
	Tree *Tree
	// Owner says below which cgroup those of pods and of classes of pods are, and which
	// of them may be removed.
	Owner roots.Owner
	// All says what all pods may have together, as the machine is now. Nil: they are
	// not limited.
	All func() (render.Cgroup, error)
	Log *slog.Logger
}

// Pods are the cgroups of pods. Some stand below one of their class, which gets as
// much of the processors as all in it together.
type Pods struct {
	cfg  PodsConfig
	root string

	mu          sync.Mutex
	shares      map[string]map[string]int64 // by class and path: what the pods that are known have
	classShares map[string]int64            // by class: what it has

	allMu     sync.Mutex
	all       render.Cgroup // what all pods have together
	unlimited bool          // they could not be limited, and that was said
}

// classes are the cgroups below the root that hold pods.
var classes = []string{"burstable", "besteffort"}

const minShares, maxShares = 2, 262144

// NewPods checks the configuration. It touches nothing yet.
func NewPods(c PodsConfig) (*Pods, error) {
	if c.Tree == nil || c.Log == nil {
		return nil, errors.New("cgroup: a tree and a log are required")
	}
	if err := checkPath(c.Owner.CgroupRoot()); err != nil {
		return nil, err
	}
	return &Pods{cfg: c, root: c.Owner.CgroupRoot(), shares: map[string]map[string]int64{}, classShares: map[string]int64{}}, nil
}

// Make makes the cgroup of a pod, with its limits. It may be there. What all pods may
// have is looked at again: the machine may have more for this one than it had.
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

// Remove removes the cgroup of a pod of which nothing should run any more. A process
// that is in it nevertheless was left by a runtime that was broken off, and nobody
// else will ever end it. Where pods of another root directory may be below the same root,
// a pod of the same UID may be one of them: then a cgroup with processes is left alone.
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

// classOf names the class that the cgroup of a pod stands in, or "".
func (p *Pods) classOf(path string) string {
	above := filepath.Dir(path)
	for _, class := range classes {
		if above == filepath.Join(p.root, class) {
			return class
		}
	}
	return ""
}

// setClassShares writes what a class gets: as much as its pods together, and no more than
// there can be. Those that nobody asks anything for get the least.
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

// List returns the cgroups of all pods by their names, whatever class they are in. If others
// may have made some of them, it returns none.
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

// Occupied tells whether the cgroup that List returned the name of has processes in it.
func (p *Pods) Occupied(name string) (bool, error) {
	for _, dir := range append([]string{""}, classes...) {
		occupied, err := p.cfg.Tree.Occupied(filepath.Join(p.root, dir, name))
		if occupied || err != nil {
			return occupied, err
		}
	}
	return false, nil
}

// RemoveEmpty removes the root and the classes if no pod is left in them.
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
