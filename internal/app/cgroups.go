package app

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/lib/cgroupname"
	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
)

// configz is the configuration in force at the moment at which it is asked for: the cgroup driver is known once the
// runtime is up.
type configz struct {
	config *config.Config
	driver func() cgroupname.Driver
}

// MarshalJSON returns a KubeletConfiguration.
func (c configz) MarshalJSON() ([]byte, error) {
	k := c.config.Kubelet()
	if d := c.driver(); d != "" {
		k.CgroupDriver = string(d)
	}
	return json.Marshal(k)
}

// cgroupInterval is the time between two checks of the cgroups of all running pods.
const cgroupInterval = 15 * time.Second

// watchCgroups enqueues pods whose cgroup vanished while containers of them run, which causes no event. The sync
// makes the cgroups again.
func (c *podRunner) watchCgroups(ctx context.Context) {
	for run.Sleep(ctx, cgroupInterval) == nil {
		for _, uid := range cgroup.Vanished(c.core.Pool.Active(), c.core.Observer.All(), func(p *v1.Pod) bool {
			return slices.ContainsFunc(c.core.Executor.Node.Cgroups(p.UID), c.cgroups.Exists)
		}) {
			c.core.Agent.Enqueue(ctx, uid)
		}
	}
}

// settle does the work that had to wait for the runtime: it asks for the cgroup driver, limits cgroups by
// it, and completes the records of images.
func (d *deps) settle(ctx context.Context) error {
	if err := d.driver.Settle(ctx); err != nil {
		return err
	}
	d.cgroups.LimitAll(ctx)
	if err := d.limitDaemons(ctx); err != nil {
		return err
	}
	return d.records.RecoverPulls(ctx, d.client.ImageRef)
}
