package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/lib/cgroupname"
	"berth/internal/lib/pod"
)

// cgroupDriver holds the cgroup driver of the container runtime, which the runtime reports once it is up. The
// reported driver wins over the configured one, as with the kubelet: a runtime can't run containers in cgroups of
// another driver. A configured driver that differs is only a warning, since the kubelet starts with it, too. The
// agent does end if pods run in cgroups of the other driver: it would neither limit nor find them.
type cgroupDriver struct {
	runtime interface {
		CgroupDriver(ctx context.Context) (cgroupname.Driver, error)
	}
	config *config.Config
	// occupied tells whether any process is in or below the cgroup at a path.
	occupied func(path string) (bool, error)
	systemd  func() error // returns an error unless systemd is the init process
	fail     func(error)  // ends the agent; nil: 'berth down' ends the pods of both drivers
	log      *slog.Logger

	mu     sync.Mutex
	driver cgroupname.Driver
}

// get returns the driver, or "" while it is not known.
func (d *cgroupDriver) get() cgroupname.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.driver
}

// settle asks the runtime for its driver, and checks that it can be used.
func (d *cgroupDriver) settle(ctx context.Context) error {
	if d.get() != "" {
		return nil
	}
	reported, err := d.runtime.CgroupDriver(ctx)
	if err != nil {
		return err
	}
	driver, warning := chooseDriver(reported, d.config.Cgroups.Driver)
	if warning != "" {
		d.log.Warn(warning, "runtime", reported, "cgroupDriver", d.config.Cgroups.Driver)
	}
	if err := d.check(driver); err != nil && d.fail != nil {
		d.fail(err)
		return err
	}
	d.log.Info("cgroups of pods", "driver", driver, "cgroupDriver", d.config.Cgroups.Driver, "cgroup", driver.Path(d.config.CgroupRoot))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.driver = driver
	return nil
}

// chooseDriver returns the driver that is in effect, from the driver that the runtime reported, "" if it reports none,
// and the configured driver, "" if none is.
func chooseDriver(reported, configured cgroupname.Driver) (driver cgroupname.Driver, warning string) {
	switch {
	case reported == "" && configured == "":
		return cgroupname.Cgroupfs, ""
	case reported == "":
		return configured, ""
	case configured == cgroupname.Systemd && reported != configured: // cgroupfs is the kubelet's default, which a runtime may always replace
		return reported, "the configured cgroup driver is not that of the container runtime, which is in effect"
	default:
		return reported, ""
	}
}

// check refuses a driver that this machine does not have, or while pods run in cgroups of the other one.
func (d *cgroupDriver) check(driver cgroupname.Driver) error {
	other := cgroupname.Systemd
	if driver == cgroupname.Systemd {
		if err := d.systemd(); err != nil {
			return fmt.Errorf("the container runtime uses the cgroup driver %s: %w: set %s there (containerd: SystemdCgroup = false)", driver, err, cgroupname.Cgroupfs)
		}
		other = cgroupname.Cgroupfs
	}
	occupied, err := d.occupied(other.Path(d.config.CgroupRoot))
	if err != nil || !occupied {
		return nil //nolint:nilerr // pods whose cgroups can't be read are none of ours
	}
	return fmt.Errorf("the container runtime uses the cgroup driver %s, and pods of this node run in cgroups of the driver %s, below %s: "+
		"drain the node and end them with 'berth down', or set the driver of the runtime back to %s (containerd: SystemdCgroup)",
		driver, other, other.Path(d.config.CgroupRoot), other)
}

// configz is the configuration in force at the moment at which it is asked for: the cgroup driver is known once the
// runtime is up.
type configz struct {
	config *config.Config
	driver *cgroupDriver
}

// MarshalJSON returns a KubeletConfiguration.
func (c configz) MarshalJSON() ([]byte, error) {
	k := c.config.Kubelet()
	if d := c.driver.get(); d != "" {
		k.CgroupDriver = string(d)
	}
	return json.Marshal(k)
}

// cgroupInterval is the time between two checks of the cgroups of all running pods.
const cgroupInterval = 15 * time.Second

// watchCgroups enqueues pods whose cgroup vanished while containers of them run, which causes no event. The sync
// makes the cgroups again.
func (c *podRunner) watchCgroups(ctx context.Context) {
	for {
		select {
		case <-time.After(cgroupInterval):
		case <-ctx.Done():
			return
		}
		for _, uid := range withoutCgroup(c.core.Pool.Active(), c.core.Observer.All(), func(p *v1.Pod) bool {
			return slices.ContainsFunc(c.core.Executor.Node.Cgroups(p.UID), c.cgroups.Exists)
		}) {
			c.core.Agent.Enqueue(ctx, uid)
		}
	}
}

// withoutCgroup returns the pods that run, and whose cgroup does not exist.
func withoutCgroup(pods []*v1.Pod, known []pod.Observed, exists func(*v1.Pod) bool) []pod.UID {
	running := map[pod.UID]bool{}
	for _, o := range known {
		running[o.UID] = o.Running()
	}
	var out []pod.UID
	for _, p := range pods {
		if running[p.UID] && !exists(p) {
			out = append(out, p.UID)
		}
	}
	return out
}

// settle does the work that had to wait for the runtime: it asks for the cgroup driver, limits cgroups by
// it, and completes the records of images.
func (d *deps) settle(ctx context.Context) error {
	if err := d.driver.settle(ctx); err != nil {
		return err
	}
	d.cgroups.LimitAll(ctx)
	if err := d.limitDaemons(ctx); err != nil {
		return err
	}
	return d.records.RecoverPulls(ctx, d.client.ImageRef)
}
