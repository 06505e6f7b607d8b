//go:build real

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
	"berth/test/fixture"
)

// runtimeTimeout is for one call of the runtime.
const runtimeTimeout = 20 * time.Second

// CallRuntime calls the runtime of this node.
func CallRuntime[T any](n *Node, call func(context.Context, cri.RuntimeServiceClient) (T, error)) (T, error) {
	var none T
	conn, err := grpc.NewClient("unix://"+n.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return none, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
	defer cancel()
	return call(ctx, cri.NewRuntimeServiceClient(conn))
}

func (n *Node) Sandboxes() []*cri.PodSandbox {
	n.T.Helper()
	r, err := CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListPodSandboxResponse, error) {
		return c.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return r.Items
}

func (n *Node) Containers() []*cri.Container {
	n.T.Helper()
	r, err := CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListContainersResponse, error) {
		return c.ListContainers(ctx, &cri.ListContainersRequest{})
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return r.Containers
}

// Container returns what the runtime knows of a container, and its process.
func (n *Node) Container(id string) (status *cri.ContainerStatus, pid int) {
	n.T.Helper()
	r, err := CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ContainerStatusResponse, error) {
		return c.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	})
	if err != nil {
		n.T.Fatal(err)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(r.Info["info"]), &info); err != nil {
		n.T.Fatalf("container %s: %v", id, err)
	}
	return r.Status, info.PID
}

// ContainerInstance identifies one run of a container.
type ContainerInstance struct {
	ID       string
	pid      int
	restarts int32
}

// Instances are the instances of the containers of pods, by pod/container.
func (n *Node) Instances(pods map[string]v1.Pod) map[string]ContainerInstance {
	n.T.Helper()
	out := map[string]ContainerInstance{}
	for name, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			id := ContainerIDs(p)[c.Name]
			_, pid := n.Container(id)
			out[name+"/"+c.Name] = ContainerInstance{ID: id, pid: pid, restarts: c.RestartCount}
		}
	}
	return out
}

// MustKeepInstances fails the test if a container was restarted or replaced.
func (n *Node) MustKeepInstances(before map[string]ContainerInstance) {
	n.T.Helper()
	after := n.Instances(n.Pods())
	for name, was := range before {
		if is := after[name]; is != was {
			n.T.Errorf("%s was %+v, and now is %+v", name, was, is)
		}
	}
}

// unsettled lists what the runtime has too much or too little of: each pod should
// have one live sandbox and no dead one, and each container should run once.
func (n *Node) unsettled(pods map[string]v1.Pod) string {
	n.T.Helper()
	ready, dead, running := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range n.Sandboxes() {
		if s.State == cri.PodSandboxState_SANDBOX_READY {
			ready[s.Labels[pod.LabelPodUID]]++
		} else {
			dead[s.Labels[pod.LabelPodUID]]++
		}
	}
	for _, c := range n.Containers() {
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

// WaitSettled waits until the runtime holds these pods, and nothing else.
func (n *Node) WaitSettled(names ...string) map[string]v1.Pod {
	n.T.Helper()
	var pods map[string]v1.Pod
	n.Wait("the runtime to hold what is wanted", StartTimeout, func() string {
		pods = n.WaitRunning(names...)
		if len(pods) != len(names) {
			return fmt.Sprintf("there are %d pods instead of %d", len(pods), len(names))
		}
		return n.unsettled(pods)
	})
	return pods
}

// ContainerdPID is the process of the bundled container runtime.
func (n *Node) ContainerdPID() int {
	n.T.Helper()
	return fixture.ContainerdPID(n.T, n.Root)
}

// runtimeTable lists the sandboxes and containers of the runtime, for messages.
func (n *Node) runtimeTable() string {
	var b strings.Builder
	list, err := CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListPodSandboxResponse, error) {
		return c.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	})
	if err != nil {
		return err.Error()
	}
	for _, s := range list.Items {
		fmt.Fprintf(&b, "%.12s %s %s attempt %d\n", s.Id, s.Metadata.Name, s.State, s.Metadata.Attempt)
	}
	containers, err := CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.ListContainersResponse, error) {
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
