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

// LimitAll makes the cgroup of all pods and writes what they may have together, if that
// is not what it has already. A machine on which it can't be done runs pods all the
// same: it is said once, and tried again the next time.
func (p *Pods) LimitAll() {
	if p.cfg.All == nil || !p.cfg.Owner.AllCgroups() { // or else others' pods would be limited
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

// LimitAll writes what the cgroup above those of pods gets and may use. A limit of
// processor time that it has is somebody else's. Memory that is in use is not taken
// away, which would kill whoever uses it: v1 refuses, and for v2 it is done here.
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

// LimitsHugePages tells whether cgroups can be kept from using huge pages.
func (t *Tree) LimitsHugePages() bool {
	if t.V2() {
		text, err := os.ReadFile(filepath.Join(t.hierarchies[0].mount, "cgroup.controllers"))
		return err == nil && slices.Contains(strings.Fields(string(text)), "hugetlb")
	}
	return slices.ContainsFunc(t.hierarchies, func(h hierarchy) bool { return slices.Contains(h.controllers, "hugetlb") })
}

// LimitsSwap tells whether a cgroup that is there can be kept from swapping, whatever
// memory it may have. Only v2 can, on a kernel that counts swap.
func (t *Tree) LimitsSwap(path string) bool {
	if !t.V2() {
		return false
	}
	_, err := os.Stat(filepath.Join(t.hierarchies[0].mount, path, "memory.swap.max"))
	return err == nil
}
