//go:build real

package real

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

// byHand is a pod that was made in the runtime, past berth.
type byHand struct {
	config             *cri.PodSandboxConfig
	sandbox, container string
}

func (p *byHand) log() string { return filepath.Join(p.config.LogDirectory, "0.log") }

func podLabels(name, uid string) map[string]string {
	return map[string]string{
		pod.LabelPodName: name, pod.LabelPodNamespace: "default", pod.LabelPodUID: uid, pod.LabelContainerName: "app",
	}
}

// must calls the runtime, and has to succeed.
func must[T any](n *node, call func(context.Context, cri.RuntimeServiceClient) (T, error)) T {
	n.t.Helper()
	answer, err := ask(n, call)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer
}

// sandboxByHand makes a pod without containers.
func (n *node) sandboxByHand(name string, labels map[string]string) *byHand {
	n.t.Helper()
	uid := labels[pod.LabelPodUID]
	if uid == "" {
		uid = name
	}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid},
		Labels:       labels,
		LogDirectory: filepath.Join(n.root, "log", "pods", "default_"+name+"_"+uid),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    "/" + n.name + "/pod" + uid,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}
	made := must(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.RunPodSandboxResponse, error) {
		return c.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	})
	owner := rootstest.Owner(n.t, roots.Claim{CgroupRoot: "/" + n.name})
	n.t.Cleanup(func() { n.removeCgroup(owner, config.Linux.CgroupParent) })
	return &byHand{config: config, sandbox: made.PodSandboxId}
}

// removeCgroup removes what the runtime leaves to those who asked for it.
func (n *node) removeCgroup(owner roots.Owner, path string) {
	tree, err := cgroup.Open()
	if err != nil {
		n.t.Error(err)
		return
	}
	cgroups, err := cgroup.NewPods(cgroup.PodsConfig{Tree: tree, Owner: owner, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), runtimeLimit)
	defer cancel()
	if err := errors.Join(cgroups.Remove(ctx, path), cgroups.RemoveEmpty()); err != nil {
		n.t.Error(err)
	}
}

// makeByHand makes a pod with one container that runs the workload.
func (n *node) makeByHand(name string, labels map[string]string, args ...string) *byHand {
	n.t.Helper()
	p := n.sandboxByHand(name, labels)
	made := must(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.CreateContainerResponse, error) {
		return c.CreateContainer(ctx, &cri.CreateContainerRequest{
			PodSandboxId: p.sandbox, SandboxConfig: p.config,
			Config: &cri.ContainerConfig{
				Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: workloadImage}, Args: args,
				Labels: labels, Annotations: map[string]string{pod.AnnotationGrace: "5"}, LogPath: "0.log",
				Linux: &cri.LinuxContainerConfig{
					SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions},
				},
			},
		})
	})
	p.container = made.ContainerId
	must(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.StartContainerResponse, error) {
		return c.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: p.container})
	})
	return p
}

// removeByHand makes the calls that it takes to stop and remove a pod, and no others.
func (n *node) removeByHand(p *byHand) error {
	_, err := ask(n, func(ctx context.Context, c cri.RuntimeServiceClient) (struct{}, error) {
		if _, err := c.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: p.container, Timeout: 5}); err != nil {
			return struct{}{}, err
		}
		if _, err := c.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
			return struct{}{}, err
		}
		if _, err := c.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: p.container}); err != nil {
			return struct{}{}, err
		}
		_, err := c.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
		return struct{}{}, err
	})
	return err
}
