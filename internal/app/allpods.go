package app

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/host/kernel"
	"berth/internal/pods/userns"
	"berth/internal/runtime/render"
)

// allPodsCgroup returns a function that returns the limits of the cgroup of all pods. It is called whenever
// a pod starts, since the machine may change: huge pages may be added. Reserved resources are kept from
// pods, unless the configuration lends them. The thresholds of memory and disk pressure are not: pods may
// use the memory below them, and the pressure condition shows it.
func allPodsCgroup(c *config.Config) func() (render.Cgroup, error) {
	host := node.Host{Storage: c.RootDir}
	var reserved v1.ResourceList
	if !c.LendReserved {
		reserved = c.Reserved
	}
	return func() (render.Cgroup, error) {
		m, err := host.ReadResources()
		if err != nil {
			return render.Cgroup{}, err
		}
		left, err := host.Available()
		if err != nil {
			return render.Cgroup{}, err
		}
		has := node.Capacity(m, node.Settings{})
		has["pid"] = *resource.NewQuantity(left.PIDs.All, resource.DecimalSI)
		all, err := render.AllPods(c.CgroupRoot, has, reserved)
		if err != nil {
			return render.Cgroup{}, err
		}
		if cpus, err := kernel.OnlineCPUs(); err == nil { // else the other limits hold all the same
			all.CPUs = cpus.String()
		}
		return all, nil
	}
}

// idsTimeout bounds the run of the program that reports the subordinate user IDs of this machine.
const idsTimeout = 10 * time.Second

// podIDRange returns the user IDs that are set aside for pods on this machine.
func podIDRange(ctx context.Context) func() (render.IDs, error) {
	return func() (render.IDs, error) {
		ctx, cancel := context.WithTimeout(ctx, idsTimeout)
		defer cancel()
		return userns.SubordinateIDs(ctx, userns.ThisMachine())
	}
}
