package observe

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
)

// seenRuntime is a fake of the state that an observer holds.
type seenRuntime struct {
	mu   sync.Mutex
	have pod.Observed
	err  error
}

func (s *seenRuntime) Get(context.Context, pod.UID, time.Time) (pod.Observed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have, s.err
}

func (s *seenRuntime) set(err error, containers ...pod.Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have, s.err = pod.Observed{Containers: containers}, err
}

func TestALogIsFollowedToTheEndOfItsContainer(t *testing.T) {
	running := pod.Container{ID: "one", Name: "app", State: pod.ContainerRunning}
	exited, next := running, running
	exited.State, next.ID = pod.ContainerExited, "two"
	for name, end := range map[string][]pod.Container{
		"it has exited":          {exited},
		"there is a later one":   {next, exited},
		"it is gone":             {},
		"nothing but the others": {next},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given a container that runs and is in no status, as one of an init container
				// may be for a moment
				seen := &seenRuntime{}
				seen.set(nil, running)
				statuses := status.NewStore()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := ExitWatcher{Pods: seen, Statuses: statuses, Log: slog.New(slog.DiscardHandler)}.ContainerExited(ctx, "uid", "one")
				isDone := func() bool {
					synctest.Wait()
					select {
					case <-done:
						return true
					default:
						return false
					}
				}
				// when things happen that are not its end, or the runtime is down
				statuses.Set("uid", v1.PodStatus{Message: "something happened"})
				if isDone() {
					t.Fatal("it ends while the container runs")
				}
				seen.set(errors.New("down"))
				time.Sleep(time.Minute)
				if isDone() {
					t.Fatal("it ends because nobody knows of the container")
				}
				// then only its end is one, as soon as it was observed
				seen.set(nil, end...)
				statuses.Set("uid", v1.PodStatus{Message: "something else happened"})
				if !isDone() {
					t.Error("it does not end with the container")
				}
			})
		})
	}
}

func TestAnEndThatNoStatusShowsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &seenRuntime{}
		seen.set(nil, pod.Container{ID: "one", State: pod.ContainerRunning})
		done := ExitWatcher{Pods: seen, Statuses: status.NewStore(), Log: slog.New(slog.DiscardHandler)}.ContainerExited(t.Context(), "uid", "one")
		synctest.Wait()
		seen.set(nil)
		<-done
	})
}
