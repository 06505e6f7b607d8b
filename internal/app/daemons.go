package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/host/kernel"
	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
)

// limitDaemons limits the cgroups of daemons to the resources that are reserved for them, as enforceNodeAllocatable asks. A
// cgroup that can't be limited ends the agent, as it does the kubelet.
func (d *deps) limitDaemons(ctx context.Context) error {
	if d.fail == nil { // 'berth down' only ends pods
		return nil
	}
	for _, of := range []struct {
		daemons string
		config.ReservedCgroup
	}{{"system", d.config.Cgroups.SystemReserved}, {"kube", d.config.Cgroups.KubeReserved}} {
		if of.Enforce == config.EnforceNothing {
			continue
		}
		limits := render.ReservedCgroup(of.Cgroup, of.Resources, of.Enforce == config.EnforceCompressible)
		if d.config.Cgroups.MemoryQoS != nil && limits.Memory > 0 {
			limits.ProtectMemory, limits.MemoryMin = true, limits.Memory
		}
		if err := d.cgroups.LimitDaemons(ctx, of.Cgroup, limits); err != nil {
			err = fmt.Errorf("enforce what is reserved (%sReservedCgroup %s): %w", of.daemons, of.Cgroup, err)
			d.events.recorder.RecordNode(v1.EventTypeWarning, event.FailedNodeAllocatableEnforcement, err.Error())
			d.fail(err)
			return err
		}
		d.events.recorder.RecordNode(v1.EventTypeNormal, event.NodeAllocatableEnforced, fmt.Sprintf("Updated limits on %s reserved cgroup %s", of.daemons, of.Cgroup))
	}
	return nil
}

// enterCgroup moves the agent into the cgroup that is configured for it, before it starts any process.
func enterCgroup(c *config.Config, log *slog.Logger) error {
	if err := kernel.CheckReservedCPUs(c.Cgroups.ReservedCPUs); err != nil {
		return err
	}
	if c.Cgroups.KubeletCgroups == "" {
		return nil
	}
	tree, err := cgroup.Open()
	if err != nil {
		return err
	}
	if err := tree.Enter(c.Cgroups.KubeletCgroups, os.Getpid()); err != nil {
		return fmt.Errorf("move the agent into kubeletCgroups %s: %w", c.Cgroups.KubeletCgroups, err)
	}
	log.Info("the agent has moved into its cgroup", "cgroup", c.Cgroups.KubeletCgroups)
	return nil
}

// keepSystemCgroup moves processes of the machine into the cgroup that is configured for them, while the agent runs.
func keepSystemCgroup(group *run.Group, c *config.Config, log *slog.Logger) error {
	if c.Cgroups.SystemCgroups == "" {
		return nil
	}
	tree, err := cgroup.Open()
	if err != nil {
		return err
	}
	group.Go("system processes", cgroup.SystemProcesses{Tree: tree, Path: c.Cgroups.SystemCgroups, Proc: "/proc", Log: log}.Keep)
	return nil
}
