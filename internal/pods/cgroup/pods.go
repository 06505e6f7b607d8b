package cgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/host/roots"
	"berth/internal/lib/cgroupname"
	"berth/internal/pods/cgroup/systemd"
	"berth/internal/runtime/render"
)

// PodsConfig is checked by NewPods.
type PodsConfig struct {
	Tree *Tree
	// Owner has the cgroup root of this agent, and decides which cgroups may be removed.
	Owner roots.Owner
	// All returns the limits of all pods together, for the machine as it is now. Nil: no limits.
	All func() (render.Cgroup, error)
	// Driver returns the cgroup driver of the runtime, or "" while it is not known. Nil: cgroupfs.
	Driver func() cgroupname.Driver
	// Slices are required of the driver systemd.
	Slices Slices
	Log    *slog.Logger
}

// Slices makes and removes slices: package systemd implements it.
type Slices interface {
	// Version returns the version of systemd.
	Version(ctx context.Context) (int, error)
	// Start makes a slice, or sets the properties of one that exists.
	Start(ctx context.Context, slice string, properties []systemd.Property) error
	Set(ctx context.Context, slice string, properties []systemd.Property) error
	Stop(ctx context.Context, slice string) error
}

// Pods manages the cgroups of pods. Burstable and BestEffort pods are below a cgroup of their QoS
// class, whose CPU shares are the sum of those of its pods.
type Pods struct {
	cfg  PodsConfig
	root string

	mu          sync.Mutex
	shares      map[string]map[string]int64 // shares of pods, by class and name
	classShares map[string]int64            // shares of classes, as written
	protected   map[string]protection       // memory that is kept for pods, by name

	protectedSum atomic.Pointer[protection] // of all of them; nil: none was set yet

	allMu     sync.Mutex
	all       render.Cgroup // the limits of all pods together, as written
	unlimited bool          // they could not be written, which is logged
	allRetry  time.Time     // they are not written before that
}

// classes are the cgroups of QoS classes below the root.
var classes = []string{"burstable", "besteffort"}

// drivers are both ways in which the cgroups of a root may have been made: an earlier run may have had another runtime.
var drivers = []cgroupname.Driver{cgroupname.Cgroupfs, cgroupname.Systemd}

const minShares, maxShares = 2, 262144

// NewPods touches no cgroup yet.
func NewPods(c PodsConfig) (*Pods, error) {
	if c.Tree == nil || c.Log == nil {
		return nil, errors.New("cgroup: a tree and a log are required")
	}
	if err := checkPath(c.Owner.CgroupRoot()); err != nil {
		return nil, err
	}
	if c.Driver == nil {
		c.Driver = func() cgroupname.Driver { return cgroupname.Cgroupfs }
	}
	return &Pods{cfg: c, root: c.Owner.CgroupRoot(), shares: map[string]map[string]int64{}, classShares: map[string]int64{}, protected: map[string]protection{}}, nil
}

// ErrDriverUnknown says that the runtime has not said yet which cgroup driver it has.
var ErrDriverUnknown = errors.New("the container runtime has not said yet which cgroup driver it uses")

func (p *Pods) driver() (cgroupname.Driver, error) {
	d := p.cfg.Driver()
	if d == "" {
		return "", ErrDriverUnknown
	}
	return d, nil
}

// Make makes the cgroup of a pod, with its limits. It is idempotent. The limits of all pods are
// computed again: the machine may have more resources than before.
func (p *Pods) Make(ctx context.Context, c render.Cgroup) error {
	driver, err := p.driver()
	if err != nil {
		return err
	}
	p.LimitAll(ctx)
	class := p.classOf(c.Name)
	if class != "" && !p.cfg.Tree.exists(driver.Path(filepath.Join(p.root, class))) {
		p.mu.Lock()
		delete(p.classShares, class) // it is made anew, without shares
		p.mu.Unlock()
	}
	if err := p.apply(ctx, c.Name, limitsOf(c)); err != nil {
		return err
	}
	if err := p.protect(ctx, c); err != nil || class == "" {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shares[class] == nil {
		p.shares[class] = map[string]int64{}
	}
	p.shares[class][c.Name] = c.Shares
	return p.setClassShares(ctx, class)
}

// Exists reports whether a cgroup is there. While the driver is not known, it is.
func (p *Pods) Exists(name string) bool {
	driver, err := p.driver()
	return err != nil || p.cfg.Tree.exists(driver.Path(name))
}

// Path returns the path of a cgroup below the mount points of the hierarchies.
func (p *Pods) Path(name string) string { return p.cfg.Driver().Path(name) }

// Remove removes the cgroup of a pod whose containers are gone. A process that is still in it was left
// by an interrupted runtime, and is killed. Where several root directories share a cgroup root,
// another one may have a pod of the same UID: then a cgroup with processes is left alone. A cgroup that was made when the
// runtime had another driver is removed, too.
func (p *Pods) Remove(ctx context.Context, name string) error {
	driver, err := p.driver()
	if err != nil {
		return err
	}
	for _, d := range drivers {
		if d != driver && !p.cfg.Tree.existsAnywhere(d.Path(name)) {
			continue
		}
		if err := p.remove(ctx, d, name); err != nil {
			return err
		}
	}
	if err := p.unprotect(ctx, name); err != nil {
		return err
	}
	class := p.classOf(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.shares[class][name]; !known {
		return nil
	}
	delete(p.shares[class], name)
	return p.setClassShares(ctx, class)
}

// remove removes a cgroup that one driver made.
func (p *Pods) remove(ctx context.Context, driver cgroupname.Driver, name string) error {
	if err := p.cfg.Owner.OwnsCgroup(name); err != nil {
		return err
	}
	path := driver.Path(name)
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
	if err := p.stopSlice(ctx, driver, name); err != nil {
		return err
	}
	return p.cfg.Tree.remove(ctx, path)
}

// classOf returns the class of the cgroup of a pod, or "".
func (p *Pods) classOf(name string) string {
	above := filepath.Dir(name)
	for _, class := range classes {
		if above == filepath.Join(p.root, class) {
			return class
		}
	}
	return ""
}

// setClassShares writes the shares of a class: the sum of its pods, within the limits of the kernel.
// BestEffort has the minimum.
func (p *Pods) setClassShares(ctx context.Context, class string) error {
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
	if err := p.setShares(ctx, filepath.Join(p.root, class), sum); err != nil {
		return err
	}
	p.classShares[class] = sum
	return nil
}

// List returns the last components of the names of the cgroups of all pods, in all classes. It returns none if other roots
// may have made some of them.
func (p *Pods) List() ([]string, error) {
	if !p.cfg.Owner.AllCgroups() {
		return nil, nil
	}
	var out []string
	for _, driver := range drivers {
		for _, class := range append([]string{""}, classes...) {
			parent := filepath.Join(p.root, class)
			dirs, err := p.cfg.Tree.Children(driver.Path(parent))
			if err != nil {
				return nil, err
			}
			for _, dir := range dirs {
				if name := driver.Child(parent, dir); strings.HasPrefix(name, "pod") {
					out = append(out, name)
				}
			}
		}
	}
	return out, nil
}

// Occupied reports whether a cgroup, by its name from List, has processes.
func (p *Pods) Occupied(name string) (bool, error) {
	for _, driver := range drivers {
		for _, class := range append([]string{""}, classes...) {
			occupied, err := p.cfg.Tree.Occupied(driver.Path(filepath.Join(p.root, class, name)))
			if occupied || err != nil {
				return occupied, err
			}
		}
	}
	return false, nil
}

// RemoveEmpty removes the root and the classes if they have no pods, of both drivers.
func (p *Pods) RemoveEmpty(ctx context.Context) error {
	if !p.cfg.Owner.OwnsCgroupRoot() {
		return nil
	}
	for _, driver := range drivers {
		for _, class := range append(append([]string(nil), classes...), "") {
			if err := p.removeIfEmpty(ctx, driver, filepath.Join(p.root, class)); err != nil {
				return fmt.Errorf("remove cgroups of no pods: %w", err)
			}
		}
	}
	return nil
}

func (p *Pods) removeIfEmpty(ctx context.Context, driver cgroupname.Driver, name string) error {
	path := driver.Path(name)
	if driver == cgroupname.Systemd {
		below, err := p.cfg.Tree.Children(path)
		if err != nil || len(below) > 0 || !p.cfg.Tree.existsAnywhere(path) {
			return err
		}
		if occupied, err := p.cfg.Tree.Occupied(path); err != nil || occupied {
			return err
		}
		if err := p.stopSlice(ctx, driver, name); err != nil {
			return err
		}
	}
	return p.cfg.Tree.removeIfEmpty(path)
}
