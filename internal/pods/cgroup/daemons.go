package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/lib/cgroupname"
	"berth/internal/runtime/render"
)

// LimitDaemons limits a cgroup of daemons, which an administrator has made and which has to exist. Limits that are zero
// stay as they are, and so do those of huge pages.
func (p *Pods) LimitDaemons(ctx context.Context, given string, c render.Cgroup) error {
	driver, err := p.driver()
	if err != nil {
		return err
	}
	name := driver.Name(given)
	path := driver.Path(name)
	if !p.cfg.Tree.exists(path) {
		return fmt.Errorf("there is no cgroup %s (driver %s): make it before the agent starts", path, driver)
	}
	l := limitsOf(c).without(quotaFiles...)
	l.keepHugePages = true
	for _, unset := range []struct {
		limit int64
		files []string
	}{{c.Shares, sharesFiles}, {c.Memory, memoryFiles}, {c.Pids, pidsFiles}} {
		if unset.limit == 0 {
			l = l.without(unset.files...)
		}
	}
	if err := p.cfg.Tree.checkMemory(path, c.Memory); err != nil {
		return err
	}
	if driver == cgroupname.Systemd {
		if err := p.setProperties(ctx, name, l); err != nil {
			return err
		}
	}
	return p.cfg.Tree.limit(path, l)
}

// Enter makes a cgroup, and moves a process into it. Hierarchies without controllers are left out: with them, systemd
// keeps track of the processes of its units.
func (t *Tree) Enter(path string, pid int) error {
	counting := Tree{hierarchies: slices.DeleteFunc(slices.Clone(t.hierarchies), func(h hierarchy) bool {
		named := slices.ContainsFunc(h.controllers, func(c string) bool { return strings.HasPrefix(c, "name=") })
		return named || h.v2 && !t.V2()
	})}
	if err := counting.Make(path); err != nil {
		return err
	}
	return counting.each(path, func(_ hierarchy, dir string) error {
		file, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("enter a cgroup: %w", err)
		}
		if _, err := file.WriteString(strconv.Itoa(pid)); err != nil {
			_ = file.Close()
			return fmt.Errorf("enter a cgroup: %w", err)
		}
		return file.Close()
	})
}
