package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// A driver says at its registration how many volumes it can have on this node. If its CSIDriver object
// has nodeAllocatableUpdatePeriodSeconds, it is asked again: after each period, and when a volume could
// not be attached because the node is full.

// periodCheckInterval is the time between two looks whether a driver without a period has one.
const periodCheckInterval = time.Minute

// limitSchedule says when drivers are asked again.
type limitSchedule struct {
	next     map[string]time.Time // by driver
	failures map[string]*logonce.Streak
}

// RunLimits asks drivers again for their limits until the context ends. The Reporter publishes what they
// say.
func (r *Reporter) RunLimits(ctx context.Context) {
	s := limitSchedule{next: map[string]time.Time{}, failures: map[string]*logonce.Streak{}}
	for {
		r.refreshLimits(ctx, &s, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-r.Manager.limitsDue:
		case <-time.After(s.wait(time.Now())):
		}
	}
}

// wait returns the time until the next driver is asked.
func (s *limitSchedule) wait(now time.Time) time.Duration {
	wait := periodCheckInterval
	for _, at := range s.next {
		wait = min(wait, max(at.Sub(now), 0))
	}
	return wait
}

// refreshLimits asks the drivers whose time has come, and those that could not attach a volume.
func (r *Reporter) refreshLimits(ctx context.Context, s *limitSchedule, now time.Time) {
	drivers, _ := r.Manager.Drivers()
	full := r.Manager.takeExhausted()
	registered := map[string]bool{}
	for _, d := range drivers {
		registered[d.Name] = true
		at, known := s.next[d.Name]
		if known && now.Before(at) && !full[d.Name] {
			continue
		}
		s.next[d.Name] = now.Add(r.refreshLimit(ctx, s, d.Name, known || full[d.Name]))
	}
	maps.DeleteFunc(s.next, func(name string, _ time.Time) bool { return !registered[name] })
	maps.DeleteFunc(s.failures, func(name string, _ *logonce.Streak) bool { return !registered[name] })
}

// refreshLimit asks a driver if it has a period and ask says so, and returns when to look again. A
// driver that has just been registered need not be asked.
func (r *Reporter) refreshLimit(ctx context.Context, s *limitSchedule, name string, ask bool) time.Duration {
	period, err := r.updatePeriod(ctx, name)
	if err == nil && period > 0 && ask {
		err = r.Manager.refreshInfo(ctx, name)
	}
	if s.failures[name] == nil {
		s.failures[name] = &logonce.Streak{}
	}
	switch {
	case err != nil && ctx.Err() == nil && s.failures[name].FailedAs(err.Error(), time.Now()):
		r.Log.Warn("can't find out how many volumes a CSI driver can have on this node; trying again", "driver", name, "err", err)
	case err == nil && s.failures[name].Recovered():
		r.Log.Info("a CSI driver said how many volumes it can have on this node", "driver", name)
	}
	if period == 0 {
		return periodCheckInterval
	}
	return period
}

// updatePeriod returns the period after which a driver is asked again for its limit; 0: never.
func (r *Reporter) updatePeriod(ctx context.Context, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	o, err := r.Client.StorageV1().CSIDrivers().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("get csidriver %q: %w", name, err)
	}
	return updatePeriodOf(&o.Spec), nil
}

func updatePeriodOf(s *storagev1.CSIDriverSpec) time.Duration {
	if s.NodeAllocatableUpdatePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*s.NodeAllocatableUpdatePeriodSeconds) * time.Second
}

// refreshInfo asks a driver again for its information, and wakes the Reporter if it has changed.
func (m *Manager) refreshInfo(ctx context.Context, name string) error {
	d := m.registered(name)
	if d == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	var info *spec.NodeGetInfoResponse
	err := m.callUntil(ctx, d, "NodeGetInfo", func(ctx context.Context, c spec.NodeClient) (err error) {
		info, err = c.NodeGetInfo(ctx, &spec.NodeGetInfoRequest{})
		return err
	})
	if err != nil {
		return err
	}
	fresh := *d // calls may be reading the driver
	if err := fresh.setInfo(info); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drivers[name] != d { // it was registered anew meanwhile
		return nil
	}
	if fresh.NodeID != d.NodeID || fresh.MaxVolumes != d.MaxVolumes || !maps.Equal(fresh.Topology, d.Topology) {
		m.drivers[name] = &fresh
		m.signalChange()
	}
	return nil
}

// setInfo takes over the answer to NodeGetInfo.
func (d *driver) setInfo(info *spec.NodeGetInfoResponse) error {
	if info.NodeId == "" {
		return errors.New("NodeGetInfo: the driver has no name for this node")
	}
	d.NodeID, d.MaxVolumes = info.NodeId, max(info.MaxVolumesPerNode, 0)
	d.Topology = maps.Clone(info.GetAccessibleTopology().GetSegments())
	return nil
}

// attachTimeout is how long a pod waits for a volume that can't be attached to a full node: others may be
// detached meanwhile.
const attachTimeout = 2 * time.Minute

// isExhausted reports whether a volume could not be attached because the node is full.
func isExhausted(e *storagev1.VolumeError) bool {
	return e.ErrorCode != nil && *e.ErrorCode == int32(codes.ResourceExhausted)
}

// hasWaited reports whether a pod has wanted an attachable volume for some time.
func (m *Manager) hasWaited(v volumeID, uid pod.UID, d time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, wants := m.wanted[v][uid]
	return wants && time.Since(since) >= d
}

// noteExhausted has a driver asked again that could not attach a volume to a full node: once for the
// error of a time.
func (m *Manager) noteExhausted(driver string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, seen := m.exhausted[driver]; seen && before.Equal(at) {
		return
	}
	m.exhausted[driver] = at
	m.toAsk[driver] = true
	run.Notify(m.limitsDue)
}

// takeExhausted returns the drivers that noteExhausted was called for, once.
func (m *Manager) takeExhausted() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.toAsk
	m.toAsk = map[string]bool{}
	return out
}
