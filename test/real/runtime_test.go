//go:build real

package real

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// What the runtime itself says, past berth.

// runtimeLimit is for one look at the runtime.
const runtimeLimit = 20 * time.Second

// ask calls the runtime of this node.
func ask[T any](n *node, call func(context.Context, cri.RuntimeServiceClient) (T, error)) (T, error) {
	var none T
	conn, err := grpc.NewClient("unix://"+n.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return none, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), runtimeLimit)
	defer cancel()
	return call(ctx, cri.NewRuntimeServiceClient(conn))
}

func (n *node) sandboxes() []*cri.PodSandbox {
	n.t.Helper()
	r, err := ask(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListPodSandboxResponse, error) {
		return c.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Items
}

func (n *node) containers() []*cri.Container {
	n.t.Helper()
	r, err := ask(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListContainersResponse, error) {
		return c.ListContainers(ctx, &cri.ListContainersRequest{})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Containers
}

// container returns what the runtime knows of a container, and its process.
func (n *node) container(id string) (status *cri.ContainerStatus, pid int) {
	n.t.Helper()
	r, err := ask(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ContainerStatusResponse, error) {
		return c.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(r.Info["info"]), &info); err != nil {
		n.t.Fatalf("container %s: %v", id, err)
	}
	return r.Status, info.PID
}

// life is what must stay as it is for a container to have been left alone.
type life struct {
	id       string
	pid      int
	restarts int32
}

// lives are the containers of pods, by pod and container.
func (n *node) lives(pods map[string]v1.Pod) map[string]life {
	n.t.Helper()
	out := map[string]life{}
	for name, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			id := ids(p)[c.Name]
			_, pid := n.container(id)
			out[name+"/"+c.Name] = life{id: id, pid: pid, restarts: c.RestartCount}
		}
	}
	return out
}

// mustLiveOn fails the test if any of these lives has changed.
func (n *node) mustLiveOn(before map[string]life) {
	n.t.Helper()
	after := n.lives(n.pods())
	for name, was := range before {
		if is := after[name]; is != was {
			n.t.Errorf("%s was %+v, and now is %+v", name, was, is)
		}
	}
}

// unsettled tells what the runtime has too much or too little of: each pod should
// have one live sandbox and no dead one, and each container should run once.
func (n *node) unsettled(pods map[string]v1.Pod) string {
	n.t.Helper()
	ready, dead, running := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range n.sandboxes() {
		if s.State == cri.PodSandboxState_SANDBOX_READY {
			ready[s.Labels[pod.LabelPodUID]]++
		} else {
			dead[s.Labels[pod.LabelPodUID]]++
		}
	}
	for _, c := range n.containers() {
		if c.State == cri.ContainerState_CONTAINER_RUNNING {
			running[c.Labels[pod.LabelPodUID]+"/"+c.Labels[pod.LabelContainerName]]++
		}
	}
	var wrong []string
	for name, p := range pods {
		uid := string(p.UID)
		if ready[uid] != 1 || dead[uid] != 0 {
			wrong = append(wrong, fmt.Sprintf("%s has %d live and %d dead sandboxes", name, ready[uid], dead[uid]))
		}
		delete(ready, uid)
		delete(dead, uid)
		for _, c := range p.Spec.Containers {
			key := uid + "/" + c.Name
			if running[key] != 1 {
				wrong = append(wrong, fmt.Sprintf("%s/%s runs %d times", name, c.Name, running[key]))
			}
			delete(running, key)
		}
	}
	if len(ready)+len(dead)+len(running) > 0 {
		wrong = append(wrong, fmt.Sprintf("of unknown pods there are: live sandboxes %v, dead ones %v, running containers %v", ready, dead, running))
	}
	slices.Sort(wrong)
	return strings.Join(wrong, "; ")
}

// waitSettled waits until the runtime holds these pods, and nothing else.
func (n *node) waitSettled(names ...string) map[string]v1.Pod {
	n.t.Helper()
	var pods map[string]v1.Pod
	n.wait("the runtime to hold what is wanted", startLimit, func() string {
		pods = n.waitRunning(names...)
		if len(pods) != len(names) {
			return fmt.Sprintf("there are %d pods instead of %d", len(pods), len(names))
		}
		return n.unsettled(pods)
	})
	return pods
}

// containerdPID is the process of the managed runtime.
func (n *node) containerdPID() int {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, "run", "containerd.pid"))
	if err != nil {
		n.t.Fatal(err)
	}
	var record struct{ PID int }
	if err := json.Unmarshal(text, &record); err != nil {
		n.t.Fatal(err)
	}
	return record.PID
}

// runtimeTable is for people.
func (n *node) runtimeTable() string {
	var b strings.Builder
	list, err := ask(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListPodSandboxResponse, error) {
		return c.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	})
	if err != nil {
		return err.Error()
	}
	for _, s := range list.Items {
		fmt.Fprintf(&b, "%.12s %s %s attempt %d\n", s.Id, s.Metadata.Name, s.State, s.Metadata.Attempt)
	}
	containers, err := ask(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListContainersResponse, error) {
		return c.ListContainers(ctx, &cri.ListContainersRequest{})
	})
	if err != nil {
		return b.String() + err.Error()
	}
	for _, c := range containers.Containers {
		fmt.Fprintf(&b, "%.12s in %.12s %s %s attempt %d\n", c.Id, c.PodSandboxId, c.Metadata.Name, c.State, c.Metadata.Attempt)
	}
	return b.String()
}
