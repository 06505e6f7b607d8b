package hostports

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/host/roots"
	"berth/internal/lib/pod"
)

func TestHostPortsFollowThePods(t *testing.T) {
	with := func(name string, port int32, phase v1.PodPhase) *v1.Pod {
		p := &v1.Pod{}
		p.Namespace, p.Name, p.UID, p.Status.Phase = "shop", name, pod.UID(name), phase
		p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: port}}}}
		return p
	}
	held := map[pod.UID][]roots.HostPort{"before": {{Port: 1}}}
	for _, step := range []struct {
		changes pod.Changes
		want    []string
	}{
		{pod.Changes{All: true, Pods: []*v1.Pod{with("b", 81, v1.PodRunning), with("a", 80, v1.PodPending), with("c", 0, v1.PodRunning)}}, []string{"shop/a", "shop/b"}},
		{pod.Changes{Pods: []*v1.Pod{with("d", 82, v1.PodFailed), with("a", 80, v1.PodSucceeded)}}, []string{"shop/b"}},
		{pod.Changes{Gone: []pod.UID{"b", "x"}}, nil},
	} {
		update(held, step.changes)
		var got []string
		for _, port := range flatten(held) {
			got = append(got, port.Pod)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("got %v, want %v", got, step.want)
		}
	}
}

// fullRegistry refuses records until there is room.
type fullRegistry struct {
	full     time.Time
	recorded [][]roots.HostPort
}

func (*fullRegistry) ForeignPorts(roots.Owner) (map[string][]roots.HostPort, error) { return nil, nil }

func (r *fullRegistry) RecordPorts(_ roots.Owner, ports []roots.HostPort) error {
	if time.Now().Before(r.full) {
		return errors.New("no space left on device")
	}
	r.recorded = append(r.recorded, ports)
	return nil
}

// onePod is an agent with one pod, which never changes.
type onePod struct{ p *v1.Pod }

func (onePod) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

func (onePod) Watch(context.Context) <-chan struct{} { return make(chan struct{}) }

func (o onePod) Since(version uint64) pod.Changes {
	if version > 0 {
		return pod.Changes{Version: version}
	}
	return pod.Changes{All: true, Version: 1, Pods: []*v1.Pod{o.p}}
}

func TestARecordThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a registry without room, and a pod with a host port
		p := &v1.Pod{}
		p.UID = "a"
		p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}}}
		registry := &fullRegistry{full: time.Now().Add(time.Hour)}
		r, err := New(Config{Registry: registry, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx, onePod{p})
		}()

		// when there is room, then the port is recorded, though no pod changed, and only once
		time.Sleep(2 * time.Hour)
		cancel()
		<-ended
		if len(registry.recorded) != 1 || len(registry.recorded[0]) != 1 || registry.recorded[0][0].Port != 8080 {
			t.Errorf("recorded %v", registry.recorded)
		}
	})
}
