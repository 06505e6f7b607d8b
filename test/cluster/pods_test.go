//go:build real

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"berth/test/lab"
)

// patience is for everything that nobody promised to be fast.
const patience = 90 * time.Second

// retry tries until there is no error, or time is up.
func retry(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		}
	}
}

// within fails the test if it takes longer until there is no error.
func within(t *testing.T, limit time.Duration, try func() error) {
	t.Helper()
	must(t, retry(t.Context(), limit, try))
}

// workloadPod is a pod of one container that behaves as test/workload is told.
func workloadPod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(2)), AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "app", Image: workloadImage, Args: args, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

// onNode has a pod run on a node without a scheduler.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

// once has a pod run its container once.
func once(p *corev1.Pod) *corev1.Pod {
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	return p
}

// pods are those of one namespace of the API.
type pods struct {
	typed.PodInterface
	t *testing.T
}

func podsIn(t *testing.T, client kubernetes.Interface, namespace string) pods {
	return pods{client.CoreV1().Pods(namespace), t}
}

// of is the same for a test within a test.
func (p pods) of(t *testing.T) pods { return pods{p.PodInterface, t} }

func (p pods) create(all ...*corev1.Pod) {
	p.t.Helper()
	for _, one := range all {
		_, err := p.Create(p.t.Context(), one, create)
		must(p.t, err)
	}
}

// find returns nil if there is no such pod.
func (p pods) find(name string) (*corev1.Pod, error) {
	found, err := p.Get(p.t.Context(), name, get)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// await returns a pod once it is as wanted. A nil pod is one that is not there.
func (p pods) await(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	p.t.Helper()
	return p.awaitWithin(patience, name, what, is)
}

func (p pods) awaitWithin(limit time.Duration, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	p.t.Helper()
	var found *corev1.Pod
	within(p.t, limit, func() error {
		got, err := p.find(name)
		if err == nil && !is(got) {
			err = fmt.Errorf("pod %s is not %s: %+v", name, what, got)
		}
		found = got
		return err
	})
	return found
}

// remove deletes pods and returns once they are gone.
func (p pods) remove(names ...string) {
	p.t.Helper()
	for _, name := range names {
		must(p.t, p.Delete(p.t.Context(), name, metav1.DeleteOptions{}))
	}
	for _, name := range names {
		p.await(name, "gone", isGone)
	}
}

// awaitPod returns a pod of namespace default once it is as wanted.
func awaitPod(t *testing.T, client kubernetes.Interface, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return podsIn(t, client, "default").await(name, what, is)
}

func isReady(p *corev1.Pod) bool {
	return p != nil && p.Status.PodIP != "" && condition(p, corev1.PodReady) == corev1.ConditionTrue
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func isGone(p *corev1.Pod) bool { return p == nil }

func hasPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == phase }
}

// life tells one container from another.
type life struct {
	container string
	restarts  int32
}

func lifeOf(p *corev1.Pod) life {
	if p == nil || len(p.Status.ContainerStatuses) == 0 {
		return life{}
	}
	s := p.Status.ContainerStatuses[0]
	return life{s.ContainerID, s.RestartCount}
}

// mustBeSame fails the test if a container is not the one that it was.
func mustBeSame(t *testing.T, p *corev1.Pod, before life) {
	t.Helper()
	if is := lifeOf(p); is != before {
		t.Errorf("pod %s has %+v, and before it was %+v", p.Name, is, before)
	}
}

// processes returns those of this machine that have word among their arguments.
func processes(t *testing.T, word string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var found []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00"+word+"\x00")) {
			continue // it may be gone
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must(t, err)
		found = append(found, pid)
	}
	return found
}

// awaitNoProcess returns once none has word among its arguments.
func awaitNoProcess(t *testing.T, limit time.Duration, word string) {
	t.Helper()
	within(t, limit, func() error {
		if left := processes(t, word); len(left) > 0 {
			return fmt.Errorf("processes %v of %s are left", left, word)
		}
		return nil
	})
}

// addStatic gives a node a static pod that sleeps, and returns its manifest.
func addStatic(t *testing.T, n *lab.Node, name string) string {
	t.Helper()
	manifest := filepath.Join(n.Manifests, name+".yaml")
	must(t, os.WriteFile(manifest, fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: %q, args: [sleep]}
`, name, workloadImage), 0o644))
	return manifest
}
