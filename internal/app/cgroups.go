package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"berth/internal/config"
	"berth/internal/lib/cgroupname"
)

// cgroupDriver holds the cgroup driver of the container runtime, which is asked once it came up. The answer wins over the
// configured driver, as for the kubelet: a runtime can't run containers in cgroups of another driver. A configured driver
// that differs is only a warning, since the kubelet starts with it, too. The agent does end if pods run in
// cgroups of the other driver: it would neither limit nor find them.
type cgroupDriver struct {
	runtime interface {
		CgroupDriver(ctx context.Context) (cgroupname.Driver, error)
	}
	config *config.Config
	// occupied tells whether any process is below a cgroup, by its path, and systemd returns an error unless it is the init.
	occupied func(path string) (bool, error)
	systemd  func() error
	fail     func(error) // ends the agent; nil: 'berth down' ends the pods of both drivers
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
	said, err := d.runtime.CgroupDriver(ctx)
	if err != nil {
		return err
	}
	driver, warning := chooseDriver(said, d.config.CgroupDriver)
	if warning != "" {
		d.log.Warn(warning, "runtime", said, "cgroupDriver", d.config.CgroupDriver)
	}
	if err := d.check(driver); err != nil && d.fail != nil {
		d.fail(err)
		return err
	}
	d.log.Info("cgroups of pods", "driver", driver, "cgroup", driver.Path(d.config.CgroupRoot))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.driver = driver
	return nil
}

// chooseDriver returns the driver that is in effect, given what the runtime says and what is configured, which are empty
// if it does not or none is.
func chooseDriver(said, configured cgroupname.Driver) (driver cgroupname.Driver, warning string) {
	switch {
	case said == "" && configured == "":
		return cgroupname.Cgroupfs, ""
	case said == "":
		return configured, ""
	case configured != "" && said != configured:
		return said, "the configured cgroup driver is not that of the container runtime, which is in effect"
	default:
		return said, ""
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

// settle completes what was left open until the runtime is up: the cgroup driver, and the records of images.
func (d *deps) settle(ctx context.Context) error {
	if err := d.driver.settle(ctx); err != nil {
		return err
	}
	d.cgroups.LimitAll(ctx)
	return d.records.Settle(ctx, d.client.ImageRef)
}
