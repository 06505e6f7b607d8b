package cgroup

import (
	"context"
	"path/filepath"

	"berth/internal/lib/cgroupname"
	"berth/internal/runtime/render"
)

// protection is memory that is kept for a pod, or for all pods: it is never reclaimed, or it is reclaimed last.
type protection struct{ min, low int64 }

// protect records the memory that is kept for a pod, and keeps as much for the cgroups above it: the kernel protects no
// more than these have. The root has what all pods need, since Burstable pods are below it, too.
func (p *Pods) protect(ctx context.Context, c render.Cgroup) error {
	if !c.ProtectMemory || !p.cfg.Tree.V2() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.protected[c.Name] = protection{c.MemoryMin, c.MemoryLow}
	return p.setProtection(ctx)
}

// unprotect forgets a pod that is gone.
func (p *Pods) unprotect(ctx context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.protected[name]; !known {
		return nil
	}
	delete(p.protected, name)
	return p.setProtection(ctx)
}

// Protected returns the memory that is kept for all pods: what is never reclaimed, and what is reclaimed last.
// It does not block.
func (p *Pods) Protected() (never, last int64) {
	if all := p.protectedSum.Load(); all != nil {
		return all.min, all.low
	}
	return 0, 0
}

// setProtection writes the protection of the root and of the Burstable class.
func (p *Pods) setProtection(ctx context.Context) error {
	var sum protection
	for _, of := range p.protected {
		sum.min += of.min
		sum.low += of.low
	}
	p.protectedSum.Store(&sum)
	if err := p.setFile(ctx, p.root, file{"memory", "memory.min", decimal(sum.min + sum.low)}); err != nil {
		return err
	}
	burstable := filepath.Join(p.root, "burstable")
	if !p.cfg.Tree.exists(p.cfg.Driver().Path(burstable)) { // it has no pods yet
		return nil
	}
	return p.setFile(ctx, burstable, file{"memory", "memory.low", decimal(sum.low)})
}

// setFile writes one file of a v2 cgroup, and the property of its slice.
func (p *Pods) setFile(ctx context.Context, name string, f file) error {
	driver, err := p.driver()
	if err != nil {
		return err
	}
	l := limits{v2: []file{f}, keepHugePages: true}
	if driver == cgroupname.Systemd {
		if err := p.setProperties(ctx, name, l); err != nil {
			return err
		}
	}
	return p.cfg.Tree.limit(driver.Path(name), l)
}
