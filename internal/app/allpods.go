package app

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	machine "berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/pods/userns"
	"berth/internal/runtime/render"
)

// What pods have of this machine together. It is looked at whenever a pod starts, since
// it may change: huge pages are added while a machine runs.

// allPods says what they may use. What is reserved is kept from them, unless the owner of
// the machine lends it. What must be left so that it is not pressed is not kept from them:
// or nobody would ever see it pressed.
func allPods(c *config.Config) func() (render.Cgroup, error) {
	host := machine.Host{Storage: c.RootDir}
	var reserved v1.ResourceList
	if !c.LendReserved {
		reserved = c.Reserved
	}
	return func() (render.Cgroup, error) {
		m, err := readMachine(host)
		if err != nil {
			return render.Cgroup{}, err
		}
		left, err := host.Available()
		if err != nil {
			return render.Cgroup{}, err
		}
		has := machine.Capacity(m, machine.Settings{})
		has["pid"] = *resource.NewQuantity(left.PIDs.All, resource.DecimalSI)
		return render.AllPods(c.CgroupRoot, has, reserved)
	}
}

// idsPatience is how long to wait for who knows the users of this machine.
const idsPatience = 10 * time.Second

// idsForPods are those that were set aside for them on this machine.
func idsForPods(ctx context.Context) func() (render.IDs, error) {
	return func() (render.IDs, error) {
		ctx, cancel := context.WithTimeout(ctx, idsPatience)
		defer cancel()
		return userns.SubordinateIDs(ctx, userns.ThisMachine())
	}
}
