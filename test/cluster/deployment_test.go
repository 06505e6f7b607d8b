//go:build real

package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/netns"
)

// workloadDeployment is a deployment of pods of test/workload.
func workloadDeployment(name string, replicas int32, args ...string) *appsv1.Deployment {
	d := deployment(name, replicas)
	d.Spec.Template.Spec = workloadPod("", args...).Spec
	return d
}

func TestADeploymentIsSpreadScaledRolledAndDeleted(t *testing.T) {
	t.Parallel()
	l, admin := sharedNamespace(t, "shop")

	// It becomes available, and both nodes have some of it.
	_, err := admin.AppsV1().Deployments("shop").Create(t.Context(), workloadDeployment("web", 20, "serve", ":8080"), create)
	must(t, err)
	began := time.Now()
	kubectl(t, l, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=90s")
	t.Logf("20 pods were available after %s", time.Since(began).Round(time.Millisecond))
	byNode := map[string][]corev1.Pod{}
	for _, p := range mustHavePods(t, admin, "shop", 20) {
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
		kubectl(t, l, "-n", "shop", "scale", "deployment/web", fmt.Sprintf("--replicas=%d", replicas))
		awaitPods(t, admin, "shop", func(all []corev1.Pod) bool { return len(all) == replicas && allReady(all) })
	}

	// Rolled, all of them are new.
	kubectl(t, l, "-n", "shop", "set", "env", "deployment/web", "VERSION=2")
	kubectl(t, l, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=90s")
	awaitPods(t, admin, "shop", func(all []corev1.Pod) bool {
		for _, p := range all {
			if len(p.Spec.Containers[0].Env) != 1 {
				return false
			}
		}
		return len(all) == 8 && allReady(all)
	})

	// Deleted, nothing is left.
	kubectl(t, l, "-n", "shop", "delete", "deployment", "web")
	awaitPods(t, admin, "shop", func(all []corev1.Pod) bool { return len(all) == 0 })
}

func allReady(all []corev1.Pod) bool {
	for i := range all {
		if !isReady(&all[i]) {
			return false
		}
	}
	return true
}

func mustHavePods(t *testing.T, client kubernetes.Interface, namespace string, count int) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != count {
		t.Fatalf("there are %d pods, not %d", len(list.Items), count)
	}
	return list.Items
}

// awaitPods returns once all pods of a namespace together are as wanted.
func awaitPods(t *testing.T, client kubernetes.Interface, namespace string, are func([]corev1.Pod) bool) {
	t.Helper()
	within(t, patience, func() error {
		list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || are(list.Items) {
			return err
		}
		var told strings.Builder
		for i := range list.Items {
			p := &list.Items[i]
			fmt.Fprintf(&told, "\n%s on %s: %s, ready: %t, deleted: %v", p.Name, p.Spec.NodeName, p.Status.Phase, isReady(p), p.DeletionTimestamp)
		}
		return fmt.Errorf("there are %d pods: %s", len(list.Items), told.String())
	})
}

// mustReach asks one pod over HTTP for its name, from the network of another.
func mustReach(t *testing.T, from, to corev1.Pod) {
	t.Helper()
	ns := networkOf(t, from)
	defer ns.Close()
	name, err := ask(t, ns, &to, "/hostname")
	must(t, err)
	if name != to.Name {
		t.Errorf("%s was asked for its name, and it says %q", to.Name, name)
	}
}

// ask asks a pod that serves on port 8080 over HTTP, from a network.
func ask(t *testing.T, from *netns.Namespace, p *corev1.Pod, path string) (string, error) {
	t.Helper()
	transport := &http.Transport{DialContext: from.Dial}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(p.Status.PodIP, "8080")+path, http.NoBody)
	must(t, err)
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return strings.TrimSpace(string(text)), err
}

// networkOf finds the network namespace of a pod by the process of its container.
func networkOf(t *testing.T, p corev1.Pod) *netns.Namespace {
	t.Helper()
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	for _, pid := range processes(t, "serve") {
		cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(cgroups), id) {
			ns, err := netns.At(fmt.Sprintf("/proc/%d/ns/net", pid))
			must(t, err)
			return ns
		}
	}
	t.Fatalf("pod %s has no process", p.Name)
	return nil
}
