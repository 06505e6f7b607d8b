package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/lib/cgroupname"
	"berth/internal/runtime/render"
)

// retryBackoff is the time after which systemd is asked again to limit all pods together, if it did not answer.
const retryBackoff = time.Minute

// LimitAll makes the cgroup above all pods and writes the limits of all pods together, if they
// changed. A slice is given its processors, all of the machine, as by the kubelet: systemd would take the controller for them away
// from the slices below otherwise. If that fails, pods run all the same: it is logged once, and retried the next time. It does nothing while
// the cgroup driver is not known.
func (p *Pods) LimitAll(ctx context.Context) {
	driver, err := p.driver()
	if p.cfg.All == nil || err != nil || !p.cfg.Owner.AllCgroups() { // pods of other roots may be below the same cgroup
		return
	}
	p.allMu.Lock()
	defer p.allMu.Unlock()
	if time.Now().Before(p.allRetry) {
		return
	}
	all, err := p.cfg.All()
	if err == nil && reflect.DeepEqual(all, p.all) && p.cfg.Tree.exists(driver.Path(p.root)) {
		return
	}
	if err == nil {
		l, inUse := p.cfg.Tree.limitsOfAll(driver.Path(p.root), all)
		if driver != cgroupname.Systemd {
			l = l.without(cpusetFile)
		}
		err = errors.Join(p.apply(ctx, p.root, l), inUse)
	}
	if err != nil {
		if !p.unlimited {
			p.cfg.Log.Warn("all pods together may use more of this machine than is meant for them", "cgroup", p.root, "err", err)
		}
		p.unlimited = true
		if errors.Is(err, context.DeadlineExceeded) { // pods that start one after the other must not wait for it again
			p.allRetry = time.Now().Add(retryBackoff)
		}
		return
	}
	p.all, p.unlimited = all, false
}

// limitsOfAll returns the limits of the cgroup above all pods. A CPU quota stays: the administrator
// set it. A memory limit below the memory in use would kill processes: v1 refuses it, and for v2 it is left out here,
// with an error.
func (t *Tree) limitsOfAll(path string, c render.Cgroup) (limits, error) {
	l := limitsOf(c).without(quotaFiles...)
	if err := t.checkMemory(path, c.Memory); err != nil {
		return l.without(memoryFileV2), err
	}
	return l, nil
}

// checkMemory refuses a limit below the memory in use of a v2 cgroup: the kernel would kill processes. v1 refuses it
// by itself.
func (t *Tree) checkMemory(path string, limit int64) error {
	if !t.V2() || limit <= 0 {
		return nil
	}
	if m := (v2{t.hierarchies[0].mount}).usage(path).Memory; m != nil && m.WorkingSet > uint64(limit) {
		return fmt.Errorf("limit the memory of %s to %d: %d are in use", path, limit, m.WorkingSet)
	}
	return nil
}

// LimitsHugePages reports whether there is a hugetlb controller.
func (t *Tree) LimitsHugePages() bool {
	if t.V2() {
		text, err := os.ReadFile(filepath.Join(t.hierarchies[0].mount, "cgroup.controllers"))
		return err == nil && slices.Contains(strings.Fields(string(text)), "hugetlb")
	}
	return slices.ContainsFunc(t.hierarchies, func(h hierarchy) bool { return slices.Contains(h.controllers, "hugetlb") })
}

// LimitsSwap reports whether the swap of a cgroup can be limited apart from its memory. Only v2 can, on
// a kernel that accounts swap.
func (t *Tree) LimitsSwap(path string) bool {
	if !t.V2() {
		return false
	}
	_, err := os.Stat(filepath.Join(t.hierarchies[0].mount, path, "memory.swap.max"))
	return err == nil
}
