package cgroup

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"berth/internal/lib/cgroupname"
)

// RuntimeDriver holds the cgroup driver of the container runtime, which the runtime reports once it is up. The
// reported driver wins over the configured one, as with the kubelet: a runtime can't run containers in cgroups of
// another driver. A configured driver that differs is only a warning, since the kubelet starts with it, too. The
// agent does end if pods run in cgroups of the other driver: it would neither limit nor find them.
type RuntimeDriver struct {
	cfg RuntimeDriverConfig

	mu     sync.Mutex
	driver cgroupname.Driver
}

// RuntimeDriverConfig configures a RuntimeDriver.
type RuntimeDriverConfig struct {
	Runtime interface {
		// CgroupDriver returns the driver of the runtime, or "" if it does not report one.
		CgroupDriver(ctx context.Context) (cgroupname.Driver, error)
	}
	Configured cgroupname.Driver // "": none
	Root       string            // the name of the cgroup of all pods
	// Occupied reports whether any process is in or below the cgroup at a path.
	Occupied func(path string) (bool, error)
	Systemd  func() error // returns an error unless systemd is the init process
	Fail     func(error)  // ends the agent; nil: 'berth down' ends the pods of both drivers
	Log      *slog.Logger
}

// NewRuntimeDriver calls no runtime yet.
func NewRuntimeDriver(c RuntimeDriverConfig) *RuntimeDriver { return &RuntimeDriver{cfg: c} }

// Get returns the driver, or "" while it is not known.
func (d *RuntimeDriver) Get() cgroupname.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.driver
}

// Settle asks the runtime for its driver, and checks that it can be used.
func (d *RuntimeDriver) Settle(ctx context.Context) error {
	if d.Get() != "" {
		return nil
	}
	reported, err := d.cfg.Runtime.CgroupDriver(ctx)
	if err != nil {
		return err
	}
	driver, warning := chooseDriver(reported, d.cfg.Configured)
	if warning != "" {
		d.cfg.Log.Warn(warning, "runtime", reported, "cgroupDriver", d.cfg.Configured)
	}
	if err := d.check(driver); err != nil && d.cfg.Fail != nil {
		d.cfg.Fail(err)
		return err
	}
	d.cfg.Log.Info("cgroups of pods", "driver", driver, "cgroupDriver", d.cfg.Configured, "cgroup", driver.Path(d.cfg.Root))
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
func (d *RuntimeDriver) check(driver cgroupname.Driver) error {
	other := cgroupname.Systemd
	if driver == cgroupname.Systemd {
		if err := d.cfg.Systemd(); err != nil {
			return fmt.Errorf("the container runtime uses the cgroup driver %s: %w: set %s there (containerd: SystemdCgroup = false)", driver, err, cgroupname.Cgroupfs)
		}
		other = cgroupname.Cgroupfs
	}
	occupied, err := d.cfg.Occupied(other.Path(d.cfg.Root))
	if err != nil || !occupied {
		return nil //nolint:nilerr // pods whose cgroups can't be read are none of ours
	}
	return fmt.Errorf("the container runtime uses the cgroup driver %s, and pods of this node run in cgroups of the driver %s, below %s: "+
		"drain the node and end them with 'berth down', or set the driver of the runtime back to %s (containerd: SystemdCgroup)",
		driver, other, other.Path(d.cfg.Root), other)
}
