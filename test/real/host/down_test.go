//go:build real

package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/test/real/kit"
)

// kindsOfTraces are the kinds of traces that running pods are sure to leave.
var kindsOfTraces = []string{"mounts", "cgroups", "network", "iptables-save", "cni results", "processes"}

func TestDownLeavesNothing(t *testing.T) {
	t.Parallel()
	// given pods with a host port, limits on their traffic, and one that dislikes to go
	n := kit.NewNode(t)
	before := n.Traces(nil)
	n.Apply("pods.yaml", podsWithTraces()...)
	n.Start()
	n.WaitRunning("limited", "stubborn")
	ids := n.RuntimeIDs()
	n.MustDifferTraces(before, n.Traces(ids), kindsOfTraces...)

	// when all is taken down, twice, then the machine is as it was
	for range 2 {
		n.Down()
		n.MustEqualTraces(before, n.Traces(ids))
	}
	// but for the images
	if _, err := os.Stat(filepath.Join(n.Root, "images", "workload.tar")); err != nil {
		t.Error(err)
	}

	// when it is run again, then the pods are back
	n.Start()
	n.WaitRunning("limited", "stubborn")
}

func TestDownAfterEverythingWasKilled(t *testing.T) {
	t.Parallel()
	// given pods, whose agent and runtime were killed
	n := kit.NewNode(t)
	before := n.Traces(nil)
	n.Apply("pods.yaml", podsWithTraces()...)
	n.Start()
	n.WaitRunning("limited", "stubborn")
	ids := n.RuntimeIDs()
	n.KillAgent()
	kit.KillProcess(t, n.ContainerdPID())
	n.MustDifferTraces(before, n.Traces(ids), kindsOfTraces...)

	// when all is taken down, then the machine is as it was
	n.Down()
	n.MustEqualTraces(before, n.Traces(ids))
}

func TestDownWaitsNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	// given a pod that may cling to life for ten minutes, and does
	n := kit.NewNode(t)
	before := n.Traces(nil)
	clings := kit.NewPod("clings", "stubborn")
	clings.Spec.TerminationGracePeriodSeconds = new(int64(600))
	n.Apply("pods.yaml", clings)
	n.Start()
	n.WaitRunning("clings")
	ids := n.RuntimeIDs()

	// when all is taken down within a second per pod, then a pod that hangs is not waited for
	if got := n.Berth("down", "--grace-period", "1", "--timeout", "1m"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	n.MustEqualTraces(before, n.Traces(ids))
}

func podsWithTraces() []*v1.Pod {
	limited := kit.NewPod("limited", "serve", ":80")
	limited.Annotations = map[string]string{"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"}
	limited.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8081}}
	stubborn := kit.NewPod("stubborn", "stubborn")
	stubborn.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return []*v1.Pod{limited, stubborn}
}

func TestGivenRuntimeIsUsedAndLeftAlone(t *testing.T) {
	t.Parallel()
	// given a containerd that runs: that of another root, whose agent is gone
	other := kit.NewNode(t)
	other.Start()
	other.Stop()
	pid := other.ContainerdPID()

	// when an agent is given its socket
	n := kit.NewNode(t)
	n.Socket = other.Socket
	n.Apply("web.yaml", kit.NewPod("web", "serve", ":8080"))
	n.Start("--container-runtime-endpoint", "unix://"+other.Socket)

	// then its pods run there, and it manages no runtime of its own
	p := n.WaitRunning("web")["web"]
	if status, _ := other.Container(kit.ContainerIDs(p)["app"]); status.State != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("there, the container is %s", status.State)
	}
	other.WaitAnswer(p.Status.PodIP+":8080", "/")
	if _, err := os.Stat(filepath.Join(n.Root, "run")); !os.IsNotExist(err) {
		t.Errorf("it has a runtime of its own: %v", err)
	}

	// when it is taken down, then its pods are gone, and the runtime is not
	n.Down()
	if left := other.Sandboxes(); len(left) > 0 {
		t.Errorf("%d sandboxes are left", len(left))
	}
	if _, err := kit.CallRuntime(other, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.VersionResponse, error) {
		return c.Version(ctx, &cri.VersionRequest{})
	}); err != nil || other.ContainerdPID() != pid {
		t.Errorf("the runtime was %d and is %d: %v", pid, other.ContainerdPID(), err)
	}
}
