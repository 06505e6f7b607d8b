package nodeapitest

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// UID is the UID of the pod of Pods.
const UID = pod.UID("uid-1")

// Pods are one pod, default/web: its container app runs and has ID c1, its container slow waits.
type Pods struct{}

// List implements nodeapi.Pods.
func (Pods) List() ([]*v1.Pod, []pod.Refusal) {
	return []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: UID},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "slow"}}},
		Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "app", ContainerID: "containerd://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			{Name: "slow", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}},
	}}, nil
}

// Logs finds the log of each container in a directory, by the container's ID.
type Logs struct{ Dir string }

// LogPath implements nodeapi.Logs.
func (l Logs) LogPath(_ context.Context, _ pod.UID, id string) (string, <-chan struct{}, error) {
	return filepath.Join(l.Dir, id), make(chan struct{}), nil
}

// Runtime has the sandbox and the container of Pods, and remains of a pod named dead.
type Runtime struct {
	StreamURL string // the URL of all its streams
}

// Observe implements nodeapi.Runtime.
func (Runtime) Observe(context.Context, pod.UID) (pod.Observed, error) {
	return pod.Observed{
		UID: UID, Name: "web", Namespace: "default", Sandboxes: []pod.Sandbox{{ID: "s1", State: pod.SandboxReady}},
		Containers: []pod.Container{{ID: "c1", Name: "app", Image: "localhost/app:1", State: pod.ContainerRunning}},
	}, nil
}

// All implements nodeapi.Runtime.
func (r Runtime) All(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	one, err := r.Observe(ctx, UID)
	return map[pod.UID]*pod.Observed{UID: &one, "dead": {UID: "dead", Name: "dead"}}, err
}

// ExecURL implements nodeapi.Runtime.
func (r Runtime) ExecURL(context.Context, string, []string, cri.Streams) (string, error) {
	return r.StreamURL, nil
}

// AttachURL implements nodeapi.Runtime.
func (r Runtime) AttachURL(context.Context, string, cri.Streams) (string, error) {
	return r.StreamURL, nil
}

// PortForwardURL implements nodeapi.Runtime.
func (r Runtime) PortForwardURL(context.Context, string, ...int32) (string, error) {
	return r.StreamURL, nil
}

// Exec implements nodeapi.Runtime: the command "false" fails, and others print their name.
func (Runtime) Exec(_ context.Context, _ string, command []string, _ time.Duration) ([]byte, int32, error) {
	if command[0] == "false" {
		return []byte("no"), 1, nil
	}
	return []byte(command[0]), 0, nil
}

// Checkpoint implements nodeapi.Runtime.
func (Runtime) Checkpoint(context.Context, string, string, time.Duration) error { return nil }
