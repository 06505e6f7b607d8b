//go:build real

package real

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// kindsOfTraces are those that running pods are sure to leave.
var kindsOfTraces = []string{"mounts", "cgroups", "network", "iptables-save", "cni results", "processes"}

func TestDownLeavesNothing(t *testing.T) {
	t.Parallel()
	// given pods with a host port, limits on their traffic, and one that dislikes to go
	n := newNode(t)
	before := n.look(nil)
	n.apply("pods.yaml", podsWithTraces()...)
	n.start()
	n.waitRunning("limited", "stubborn")
	ids := n.allIDs()
	n.mustDiffer(before, n.look(ids), kindsOfTraces...)

	// when all is taken down, twice, then the machine is as it was
	for range 2 {
		n.down()
		n.mustBeAsBefore(before, n.look(ids))
	}
	// but for the images
	if _, err := os.Stat(filepath.Join(n.root, "images", "workload.tar")); err != nil {
		t.Error(err)
	}

	// when it is run again, then the pods are back
	n.start()
	n.waitRunning("limited", "stubborn")
}

func TestDownAfterEverythingWasKilled(t *testing.T) {
	t.Parallel()
	// given pods, whose agent and runtime were killed
	n := newNode(t)
	before := n.look(nil)
	n.apply("pods.yaml", podsWithTraces()...)
	n.start()
	n.waitRunning("limited", "stubborn")
	ids := n.allIDs()
	n.crash()
	kill(t, n.containerdPID())
	n.mustDiffer(before, n.look(ids), kindsOfTraces...)

	// when all is taken down, then the machine is as it was
	n.down()
	n.mustBeAsBefore(before, n.look(ids))
}

func TestDownWaitsNoLongerThanItIsTold(t *testing.T) {
	t.Parallel()
	// given a pod that may cling to life for ten minutes, and does
	n := newNode(t)
	before := n.look(nil)
	clings := newPod("clings", "stubborn")
	clings.Spec.TerminationGracePeriodSeconds = new(int64(600))
	n.apply("pods.yaml", clings)
	n.start()
	n.waitRunning("clings")
	ids := n.allIDs()

	// when all is taken down within a second per pod, then nobody waits for it
	if got := n.berth("down", "--grace-period", "1", "--timeout", "1m"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	n.mustBeAsBefore(before, n.look(ids))
}

func podsWithTraces() []*v1.Pod {
	limited := newPod("limited", "serve", ":80")
	limited.Annotations = map[string]string{"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"}
	limited.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8081}}
	stubborn := newPod("stubborn", "stubborn")
	stubborn.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return []*v1.Pod{limited, stubborn}
}

func TestGivenRuntimeIsUsedAndLeftAlone(t *testing.T) {
	t.Parallel()
	// given a containerd that runs: that of another root, whose agent is gone
	other := newNode(t)
	other.start()
	other.stop()
	pid := other.containerdPID()

	// when an agent is given its socket
	n := newNode(t)
	n.socket = other.socket
	n.apply("web.yaml", newPod("web", "serve", ":8080"))
	n.start("--container-runtime-endpoint", "unix://"+other.socket)

	// then its pods run there, and it manages no runtime of its own
	p := n.waitRunning("web")["web"]
	if status, _ := other.container(ids(p)["app"]); status.State != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("there, the container is %s", status.State)
	}
	other.waitAnswer(p.Status.PodIP+":8080", "/")
	if _, err := os.Stat(filepath.Join(n.root, "run")); !os.IsNotExist(err) {
		t.Errorf("it has a runtime of its own: %v", err)
	}

	// when it is taken down, then its pods are gone, and the runtime is not
	n.down()
	if left := other.sandboxes(); len(left) > 0 {
		t.Errorf("%d sandboxes are left", len(left))
	}
	if _, err := ask(other, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.VersionResponse, error) {
		return c.Version(ctx, &cri.VersionRequest{})
	}); err != nil || other.containerdPID() != pid {
		t.Errorf("the runtime was %d and is %d: %v", pid, other.containerdPID(), err)
	}
}
