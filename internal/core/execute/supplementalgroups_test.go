package execute

import (
	"context"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

// recordingRuntime keeps the last configurations that it got.
type recordingRuntime struct {
	Runtime
	sandbox, around *render.SandboxConfig
	container       *render.ContainerConfig
}

func (s *recordingRuntime) RunSandbox(ctx context.Context, config *render.SandboxConfig, handler string) (string, error) {
	s.sandbox = config
	return s.Runtime.RunSandbox(ctx, config, handler)
}

func (s *recordingRuntime) CreateContainer(ctx context.Context, sandbox string, config *render.ContainerConfig, in *render.SandboxConfig) (string, error) {
	s.container, s.around = config, in
	return s.Runtime.CreateContainer(ctx, sandbox, config, in)
}

func TestContainersAreInTheGroupsOfTheirVolumes(t *testing.T) {
	onNode(t, 2, func(n *node) {
		runtime := &recordingRuntime{Runtime: n.Runtime}
		n.Runtime = runtime
		n.volumes.AddGroup(5)
		n.volumes.AddGroup(4711)

		// given a pod that is in one of them anyway, and one that asks for none
		p := web("a", "app")
		p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{4, 5}}
		for _, p := range []*v1.Pod{p, web("b", "app")} {
			before := p.DeepCopy().Spec.SecurityContext
			n.settle(p)

			want := []int64{5, 4711}
			if p.Spec.SecurityContext != nil {
				want = []int64{4, 5, 4711}
			}
			for what, got := range map[string][]int64{
				"container": runtime.container.GetLinux().GetSecurityContext().GetSupplementalGroups(),
				"sandbox":   runtime.sandbox.GetLinux().GetSecurityContext().GetSupplementalGroups(),
				"around":    runtime.around.GetLinux().GetSecurityContext().GetSupplementalGroups(),
			} {
				if !slices.Equal(got, want) {
					t.Errorf("%s of %s is in %v, want %v", what, p.Name, got, want)
				}
			}
			if !reflect.DeepEqual(before, p.Spec.SecurityContext) {
				t.Error("the pod itself was changed")
			}
		}
	})
}
