package observe

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
)

// fixedPods are pods that all look the same.
type fixedPods pod.Observed

func (f fixedPods) Get(context.Context, pod.UID, time.Time) (pod.Observed, error) {
	return pod.Observed(f), nil
}

func newContainerLogs(have pod.Observed) ExitWatcher {
	return ExitWatcher{Pods: fixedPods(have), Statuses: status.NewStore(), Log: slog.New(slog.DiscardHandler)}
}

func TestTheLogOfAContainerThatHasExited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := newContainerLogs(pod.Observed{Containers: []pod.Container{{ID: "one", State: pod.ContainerExited, LogPath: "/log"}}})
		path, done, err := logs.LogPath(t.Context(), "uid", "one")
		if err != nil || path != "/log" {
			t.Fatalf("got %q, %v", path, err)
		}
		<-done
	})
}

func TestTheLogOfAContainerThatIsGone(t *testing.T) {
	logs := newContainerLogs(pod.Observed{})
	if _, _, err := logs.LogPath(t.Context(), "uid", "one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
