//go:build real

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	machine "berth/internal/cluster/node"
	"berth/internal/intake/source"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/telemetry/event"
	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
)

// member is the part of an agent that shows a node and its events to a cluster.
type member struct {
	*machine.Reporter
	recorder *event.Recorder
	client   *kubernetes.Clientset
	log      *memberLog

	registered chan types.UID // each time that it was
	changed    chan struct{}  // capacity 1
	pods       chan pod.Snapshot
}

// memberLog is the log of a member.
type memberLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *memberLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *memberLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// joinMember makes node "one" of a healthy machine. It ends with the test.
func joinMember(t *testing.T, plane *lab.Lab) *member {
	t.Helper()
	m := &member{
		client: kit.Client(t, plane, control.Node("one")), log: &memberLog{},
		registered: make(chan types.UID, 16), changed: make(chan struct{}, 1), pods: make(chan pod.Snapshot, 16),
	}
	log := slog.New(slog.NewTextHandler(m.log, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the node:\n%s", m.log)
		}
	})
	store, err := event.OpenStore(event.StoreConfig{Log: log})
	kit.Must(t, err)
	sink, err := event.NewAPISink(event.SinkConfig{Client: m.client.CoreV1(), Log: log})
	kit.Must(t, err)
	m.recorder, err = event.New(event.Config{Node: "one", Component: "kubelet", Store: store, Log: log, Sink: sink.Send})
	kit.Must(t, err)
	ready := make(chan struct{})
	pods, err := source.NewAPI(source.APIConfig{Client: m.client, Node: "one", Log: log, Ready: ready})
	kit.Must(t, err)
	yes := true
	m.Reporter, err = machine.New(machine.Config{
		Settings: machine.Settings{Name: "one", Version: "test"},
		Client:   m.client, Watch: m.client.CoreV1(), Events: m.recorder, Log: log,
		Machine:   machine.Host{Storage: t.TempDir()}.Read,
		Addresses: func() ([]string, error) { return []string{"10.99.0.11"}, nil },
		Runtime: func(context.Context) (machine.Runtime, error) {
			return machine.Runtime{
				Name: "containerd", Version: "2",
				Handlers: []corev1.NodeRuntimeHandler{{Name: "runc", Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &yes}}},
				Features: &corev1.NodeFeatures{SupplementalGroupsPolicy: &yes},
				Images:   []corev1.ContainerImage{{Names: []string{kit.WorkloadImage}, SizeBytes: 1}},
			}, nil
		},
		Registered: func(uid types.UID, again bool) {
			if again {
				pods.Relist()
			}
			m.registered <- uid
		},
		Changed: func() {
			select {
			case m.changed <- struct{}{}:
			default:
			}
		},
		Lease: 4 * time.Second,
	})
	kit.Must(t, err)
	m.SetRuntime(nil)
	m.SetNetwork(nil)
	group := run.NewGroup(t.Context(), log)
	group.Go("recorder", m.recorder.Run)
	group.Go("sink", sink.Run)
	group.Go("node", m.Run)
	group.Go("pods", func(ctx context.Context) { pods.Run(ctx, m.pods) })
	t.Cleanup(group.Stop)
	awaitUID(t, m)
	close(ready)
	return m
}

// awaitUID returns the UID of the Node that is registered next.
func awaitUID(t *testing.T, m *member) types.UID {
	t.Helper()
	select {
	case uid := <-m.registered:
		return uid
	case <-time.After(30 * time.Second):
		t.Fatal("the node was not registered")
		return ""
	}
}

// awaitSnapshot returns once a snapshot has just these pods.
func awaitSnapshot(t *testing.T, m *member, want ...string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case s := <-m.pods:
			var got []string
			for _, p := range s.Pods {
				got = append(got, p.Name)
			}
			if strings.Join(got, " ") == strings.Join(want, " ") {
				return
			}
		case <-deadline:
			t.Fatalf("pods %q did not come", want)
		}
	}
}

// isReadyNode returns an error that names what a node lacks to be ready.
func isReadyNode(n *corev1.Node) error {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready: %v", n.Name, n.Status.Conditions)
}
