package upstream

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"berth/internal/core/status"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

func TestAPodIsReleasedOnlyWhileItsSourceHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		removed bool // by force, before it has stopped
		want    int  // requests
	}{
		"it is still there":       {removed: false, want: 1},
		"it was deleted by force": {removed: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given a pod that was deleted, and is being stopped
				log := slog.New(slog.DiscardHandler)
				p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
					Name: "web", Namespace: "default", UID: "uid", ResourceVersion: "1",
					Annotations: map[string]string{pod.AnnotationSource: pod.SourceAPI}, DeletionTimestamp: &metav1.Time{Time: time.Now()},
				}}
				server := fake.NewClientset(p)
				wanted := desired.New()
				writer, err := status.NewWriter(status.WriterConfig{Client: server.CoreV1(), Log: log, Workers: 1})
				if err != nil {
					t.Fatal(err)
				}
				u, err := New(Config{Desired: wanted, Writer: writer, Mirrors: noMirrors{}})
				if err != nil {
					t.Fatal(err)
				}
				group := run.NewGroup(t.Context(), log)
				defer group.Stop()
				group.Go("status writer", writer.Run)
				wanted.Upsert(p)
				if c.removed {
					wanted.Remove(p.UID)
					u.Forget(p.UID)
				}

				// when it has stopped
				u.Release(p)
				synctest.Wait()

				// then the server is asked to let go of it, if it has it
				if got := len(server.Actions()); got != c.want {
					t.Errorf("%d requests: %v", got, server.Actions())
				}
			})
		})
	}
}

type noMirrors struct{}

func (noMirrors) Ensure(_, _ *v1.Pod) {}
func (noMirrors) Delete(*v1.Pod)      {}
