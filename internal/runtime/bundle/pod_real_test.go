//go:build real

package bundle

import (
	"path/filepath"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pod is a sandbox with one container, made over CRI.
type pod struct {
	a                  *agent
	runtime            cri.RuntimeServiceClient
	sandbox, container string
}

func (a *agent) startPod(name, image string, hostPort int32) *pod {
	t := a.m.t
	t.Helper()
	conn, err := dial(a.rt.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx := t.Context()
	status, err := cri.NewImageServiceClient(conn).ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
	if err != nil || status.GetImage() == nil {
		t.Fatalf("CRI does not know image %s: %v", image, err)
	}
	p := &pod{a: a, runtime: cri.NewRuntimeServiceClient(conn)}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		PortMappings: []*cri.PortMapping{{ContainerPort: 80, HostPort: hostPort}},
		Annotations:  map[string]string{"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"},
		Linux:        &cri.LinuxPodSandboxConfig{CgroupParent: "/" + filepath.Base(a.m.root)},
	}
	sandbox, err := p.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	p.sandbox = sandbox.GetPodSandboxId()
	created, err := p.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: image},
			Linux: &cri.LinuxContainerConfig{},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.container = created.GetContainerId()
	if _, err := p.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: p.container}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pod) running() bool {
	p.a.m.t.Helper()
	s, err := p.runtime.ContainerStatus(p.a.m.t.Context(), &cri.ContainerStatusRequest{ContainerId: p.container})
	if err != nil {
		p.a.m.t.Fatal(err)
	}
	return s.GetStatus().GetState() == cri.ContainerState_CONTAINER_RUNNING
}

func (p *pod) remove() {
	t := p.a.m.t
	t.Helper()
	ctx := t.Context()
	if _, err := p.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Fatal(err)
	}
}
