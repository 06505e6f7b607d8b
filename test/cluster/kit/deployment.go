//go:build real

package kit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/netns"
)

// WorkloadDeployment is a deployment of pods of test/workload.
func WorkloadDeployment(name string, replicas int32, args ...string) *appsv1.Deployment {
	d := Deployment(name, replicas)
	d.Spec.Template.Spec = WorkloadPod("", args...).Spec
	return d
}

// AllReady reports whether all of these pods are ready.
func AllReady(all []corev1.Pod) bool {
	for i := range all {
		if !IsReady(&all[i]) {
			return false
		}
	}
	return true
}

// MustHavePods returns the pods of a namespace, of which there have to be so many.
func MustHavePods(t *testing.T, client kubernetes.Interface, namespace string, count int) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	Must(t, err)
	if len(list.Items) != count {
		t.Fatalf("there are %d pods, not %d", len(list.Items), count)
	}
	return list.Items
}

// AwaitPods returns once all pods of a namespace together are as wanted.
func AwaitPods(t *testing.T, client kubernetes.Interface, namespace string, are func([]corev1.Pod) bool) {
	t.Helper()
	Within(t, WaitTimeout, func() error {
		list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || are(list.Items) {
			return err
		}
		var description strings.Builder
		for i := range list.Items {
			p := &list.Items[i]
			fmt.Fprintf(&description, "\n%s on %s: %s, ready: %t, deleted: %v", p.Name, p.Spec.NodeName, p.Status.Phase, IsReady(p), p.DeletionTimestamp)
		}
		return fmt.Errorf("there are %d pods: %s", len(list.Items), description.String())
	})
}

// GetFromPod asks a pod that serves on port 8080 over HTTP, from a network.
func GetFromPod(t *testing.T, from *netns.Namespace, p *corev1.Pod, path string) (string, error) {
	t.Helper()
	transport := &http.Transport{DialContext: from.Dial}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(p.Status.PodIP, "8080")+path, http.NoBody)
	Must(t, err)
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
