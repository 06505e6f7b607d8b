// Package teardown stops all pods of a node, for 'berth down'. It uses an ordinary agent whose only source has no
// pods: every pod of the runtime is an orphan then, and is ended as one.
package teardown

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"berth/internal/core/worker"
	"berth/internal/lib/pod"
)

// OwnGrace gives every pod its own grace period.
const OwnGrace int64 = -1

// Workers ends pods. See worker.Pool.
type Workers interface {
	Lives() map[pod.UID]worker.Life
	Orphan(pod.Observed)
	End(uid pod.UID, grace *int64, cause pod.Cause)
}

// Config has the parts of a started agent whose source has not sent a snapshot yet. All fields are
// required.
type Config struct {
	Workers Workers
	Changed <-chan struct{} // receives a value after changes of pods
	// InRuntime and OnDisk list the pods that have containers, or files.
	InRuntime func(context.Context) (map[pod.UID]*pod.Observed, error)
	OnDisk    func() (map[pod.UID]*pod.Observed, error)
	// DriverUsers returns the pods with volumes of CSI drivers.
	DriverUsers func() (map[pod.UID]bool, error)
	// NoPods makes the source send a snapshot without pods. Before that, the agent ends no orphans.
	NoPods func()
	Log    *slog.Logger
}

// Run stops all pods and waits until they are gone. Each pod has at most grace seconds to end, unless that is
// negative.
func Run(ctx context.Context, c Config, grace int64) error {
	t := teardown{c, grace}
	if err := t.stopUsersOfDrivers(ctx); err != nil {
		return err
	}
	c.NoPods()
	return t.waitGone(ctx, func() (int, error) {
		left, err := t.remaining(ctx)
		return max(len(left), len(c.Workers.Lives())), err
	})
}

type teardown struct {
	Config
	grace int64 // seconds; negative: that of each pod
}

// stopUsersOfDrivers ends the pods with volumes of CSI drivers before all others: the drivers,
// which unmount these volumes, may be pods, too. If they have not ended after half of the time,
// the others are ended nevertheless.
func (t teardown) stopUsersOfDrivers(ctx context.Context) error {
	users, err := t.DriverUsers()
	if err != nil || len(users) == 0 {
		return err
	}
	there, err := t.remaining(ctx)
	if err != nil {
		return err
	}
	half, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	defer cancel()
	for uid := range users {
		if o := there[uid]; o != nil {
			t.Workers.Orphan(*o)
		}
	}
	err = t.waitGone(half, func() (int, error) {
		there, err := t.remaining(half)
		maps.DeleteFunc(there, func(uid pod.UID, _ *pod.Observed) bool { return !users[uid] })
		return len(there), err
	})
	if err != nil && half.Err() != nil && ctx.Err() == nil {
		t.Log.Warn("the drivers of some volumes do not take them away; going on with the other pods", "err", err)
		return nil
	}
	return err
}

// waitGone waits until no pods are left. Until then, all pods that are being ended have at most
// grace seconds, if that is not negative.
func (t teardown) waitGone(ctx context.Context, left func() (int, error)) error {
	for {
		if t.grace >= 0 {
			for uid := range t.Workers.Lives() {
				t.Workers.End(uid, &t.grace, pod.Cause{Description: "all is taken down"})
			}
		}
		count, err := left()
		if count == 0 || err != nil {
			return err
		}
		select {
		case <-t.Changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%d pods are still there: %w", count, context.Cause(ctx))
		}
	}
}

// remaining returns the pods that have containers in the runtime or files on the disk.
func (t teardown) remaining(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	there, err := t.OnDisk()
	if err != nil {
		return nil, err
	}
	inRuntime, err := t.InRuntime(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(there, inRuntime)
	return there, nil
}
