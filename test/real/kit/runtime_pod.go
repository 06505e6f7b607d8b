//go:build real

package kit

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
	"berth/internal/lib/pod"
	"berth/internal/pods/cgroup"
)

// RuntimePod is a pod that a test made in the container runtime, without the agent.
type RuntimePod struct {
	config             *cri.PodSandboxConfig
	sandbox, Container string
}

func (p *RuntimePod) LogFile() string { return filepath.Join(p.config.LogDirectory, "0.log") }

// PodLabels are the labels by which berth knows the pod of a sandbox and of a container.
func PodLabels(name, uid string) map[string]string {
	return map[string]string{
		pod.LabelPodName: name, pod.LabelPodNamespace: "default", pod.LabelPodUID: uid, pod.LabelContainerName: "app",
	}
}

// MustCallRuntime calls the runtime, and has to succeed.
func MustCallRuntime[T any](n *Node, call func(context.Context, cri.RuntimeServiceClient) (T, error)) T {
	n.T.Helper()
	answer, err := CallRuntime(n, call)
	if err != nil {
		n.T.Fatal(err)
	}
	return answer
}

// CreateSandbox makes a pod without containers.
func (n *Node) CreateSandbox(name string, labels map[string]string) *RuntimePod {
	n.T.Helper()
	uid := labels[pod.LabelPodUID]
	if uid == "" {
		uid = name
	}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid},
		Labels:       labels,
		LogDirectory: filepath.Join(n.Root, "log", "pods", "default_"+name+"_"+uid),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    "/" + n.UniqueName + "/pod" + uid,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}
	made := MustCallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.RunPodSandboxResponse, error) {
		return c.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	})
	owner := rootstest.Owner(n.T, roots.Claim{CgroupRoot: "/" + n.UniqueName})
	n.T.Cleanup(func() { n.removeCgroup(owner, config.Linux.CgroupParent) })
	return &RuntimePod{config: config, sandbox: made.PodSandboxId}
}

// removeCgroup removes the cgroup of a pod, which the runtime leaves to its client.
func (n *Node) removeCgroup(owner roots.Owner, path string) {
	tree, err := cgroup.Open()
	if err != nil {
		n.T.Error(err)
		return
	}
	cgroups, err := cgroup.NewPods(cgroup.PodsConfig{Tree: tree, Owner: owner, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.T.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
	defer cancel()
	if err := errors.Join(cgroups.Remove(ctx, path), cgroups.RemoveEmpty(context.Background())); err != nil {
		n.T.Error(err)
	}
}

// CreateRuntimePod makes a pod with one container that runs the workload.
func (n *Node) CreateRuntimePod(name string, labels map[string]string, args ...string) *RuntimePod {
	n.T.Helper()
	p := n.CreateSandbox(name, labels)
	made := MustCallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.CreateContainerResponse, error) {
		return c.CreateContainer(ctx, &cri.CreateContainerRequest{
			PodSandboxId: p.sandbox, SandboxConfig: p.config,
			Config: &cri.ContainerConfig{
				Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: WorkloadImage}, Args: args,
				Labels: labels, Annotations: map[string]string{pod.AnnotationGrace: "5"}, LogPath: "0.log",
				Linux: &cri.LinuxContainerConfig{
					SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions},
				},
			},
		})
	})
	p.Container = made.ContainerId
	MustCallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.StartContainerResponse, error) {
		return c.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: p.Container})
	})
	return p
}

// RemoveRuntimePod makes the calls that it takes to stop and remove a pod, and no others.
func (n *Node) RemoveRuntimePod(p *RuntimePod) error {
	_, err := CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (struct{}, error) {
		if _, err := c.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: p.Container, Timeout: 5}); err != nil {
			return struct{}{}, err
		}
		if _, err := c.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
			return struct{}{}, err
		}
		if _, err := c.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: p.Container}); err != nil {
			return struct{}{}, err
		}
		_, err := c.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
		return struct{}{}, err
	})
	return err
}
