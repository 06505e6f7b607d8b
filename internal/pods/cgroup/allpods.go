package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"berth/internal/runtime/render"
)

// LimitAll makes the cgroup above all pods and writes the limits of all pods together, if they
// changed. If that fails, pods run all the same: it is logged once, and retried the next time.
func (p *Pods) LimitAll() {
	if p.cfg.All == nil || !p.cfg.Owner.AllCgroups() { // pods of other roots may be below the same cgroup
		return
	}
	p.allMu.Lock()
	defer p.allMu.Unlock()
	all, err := p.cfg.All()
	if err == nil && reflect.DeepEqual(all, p.all) {
		return
	}
	if err == nil {
		err = errors.Join(p.cfg.Tree.Make(p.root), p.cfg.Tree.LimitAll(all))
	}
	if err != nil {
		if !p.unlimited {
			p.cfg.Log.Warn("all pods together may use more of this machine than is meant for them", "cgroup", p.root, "err", err)
		}
		p.unlimited = true
		return
	}
	p.all, p.unlimited = all, false
}

// LimitAll writes the limits of the cgroup above all pods. A CPU quota stays: the administrator
// set it. A memory limit below the memory in use would kill processes: v1 refuses it, and for v2 that is
// checked here.
func (t *Tree) LimitAll(c render.Cgroup) error {
	ofV1, ofV2 := filesV1(c), filesV2(c)
	ofTime := func(f file) bool { return slices.Contains(quotaFiles, f.name) }
	ofV1, ofV2 = slices.DeleteFunc(ofV1, ofTime), slices.DeleteFunc(ofV2, ofTime)
	var inUse error
	for _, h := range t.hierarchies {
		if !h.v2 || c.Memory <= 0 {
			continue
		}
		if m := (v2{h.mount}).usage(c.Path).Memory; m != nil && m.WorkingSet > uint64(c.Memory) {
			inUse = fmt.Errorf("limit the memory of all pods to %d: they use %d", c.Memory, m.WorkingSet)
			ofV2 = slices.DeleteFunc(ofV2, func(f file) bool { return f.name == memoryFileV2 })
		}
	}
	return errors.Join(inUse, t.limit(c, ofV1, ofV2))
}

// LimitsHugePages tells whether there is a hugetlb controller.
func (t *Tree) LimitsHugePages() bool {
	if t.V2() {
		text, err := os.ReadFile(filepath.Join(t.hierarchies[0].mount, "cgroup.controllers"))
		return err == nil && slices.Contains(strings.Fields(string(text)), "hugetlb")
	}
	return slices.ContainsFunc(t.hierarchies, func(h hierarchy) bool { return slices.Contains(h.controllers, "hugetlb") })
}

// LimitsSwap tells whether the swap of a cgroup can be limited apart from its memory. Only v2 can, on
// a kernel that accounts swap.
func (t *Tree) LimitsSwap(path string) bool {
	if !t.V2() {
		return false
	}
	_, err := os.Stat(filepath.Join(t.hierarchies[0].mount, path, "memory.swap.max"))
	return err == nil
}
