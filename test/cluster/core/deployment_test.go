//go:build real

package core

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
	"berth/test/netns"
)

func TestADeploymentIsSpreadScaledRolledAndDeleted(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "shop")

	// It becomes available, and both nodes have some of it.
	_, err := admin.AppsV1().Deployments("shop").Create(t.Context(), kit.WorkloadDeployment("web", 20, "serve", ":8080"), kit.CreateOptions)
	kit.Must(t, err)
	began := time.Now()
	kit.Kubectl(t, l, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=90s")
	t.Logf("20 pods were available after %s", time.Since(began).Round(time.Millisecond))
	byNode := map[string][]corev1.Pod{}
	for _, p := range kit.MustHavePods(t, admin, "shop", 20) {
		byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
	}
	if len(byNode["one"]) == 0 || len(byNode["two"]) == 0 {
		t.Fatalf("node one has %d pods, and node two %d", len(byNode["one"]), len(byNode["two"]))
	}

	// Pods of one node reach those of the other.
	mustReach(t, byNode["one"][0], byNode["two"][0])
	mustReach(t, byNode["two"][0], byNode["one"][0])

	// Scaled down and up, there are as many as asked for.
	for _, replicas := range []int{4, 8} {
		kit.Kubectl(t, l, "-n", "shop", "scale", "deployment/web", fmt.Sprintf("--replicas=%d", replicas))
		kit.AwaitPods(t, admin, "shop", func(all []corev1.Pod) bool { return len(all) == replicas && kit.AllReady(all) })
	}

	// Rolled, all of them are new.
	kit.Kubectl(t, l, "-n", "shop", "set", "env", "deployment/web", "VERSION=2")
	kit.Kubectl(t, l, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=90s")
	kit.AwaitPods(t, admin, "shop", func(all []corev1.Pod) bool {
		for _, p := range all {
			if len(p.Spec.Containers[0].Env) != 1 {
				return false
			}
		}
		return len(all) == 8 && kit.AllReady(all)
	})

	// Deleted, nothing is left.
	kit.Kubectl(t, l, "-n", "shop", "delete", "deployment", "web")
	kit.AwaitPods(t, admin, "shop", func(all []corev1.Pod) bool { return len(all) == 0 })
}

// mustReach asks one pod over HTTP for its name, from the network of another.
func mustReach(t *testing.T, from, to corev1.Pod) {
	t.Helper()
	ns := networkOf(t, from)
	defer ns.Close()
	name, err := kit.GetFromPod(t, ns, &to, "/hostname")
	kit.Must(t, err)
	if name != to.Name {
		t.Errorf("%s was asked for its name, and it says %q", to.Name, name)
	}
}

// networkOf finds the network namespace of a pod by the process of its container.
func networkOf(t *testing.T, p corev1.Pod) *netns.Namespace {
	t.Helper()
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	for _, pid := range kit.ProcessesWith(t, "serve") {
		cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(cgroups), id) {
			ns, err := netns.At(fmt.Sprintf("/proc/%d/ns/net", pid))
			kit.Must(t, err)
			return ns
		}
	}
	t.Fatalf("pod %s has no process", p.Name)
	return nil
}
