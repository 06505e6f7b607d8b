//go:build real

package kit

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

// WaitTimeout is for everything that is not promised to be fast.
const WaitTimeout = 90 * time.Second

// Retry tries until there is no error, or time is up.
func Retry(ctx context.Context, limit time.Duration, try func() error) error {
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

// Within fails the test if it takes longer until there is no error.
func Within(t *testing.T, limit time.Duration, try func() error) {
	t.Helper()
	Must(t, Retry(t.Context(), limit, try))
}

// WorkloadPod is a pod of one container, app, that runs a command of test/workload.
func WorkloadPod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(2)), AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "app", Image: WorkloadImage, Args: args, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

// OnNode has a pod run on a node without a scheduler.
func OnNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

// WithoutRestart has a pod run its container once.
func WithoutRestart(p *corev1.Pod) *corev1.Pod {
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	return p
}

// Pods are the pods of one namespace of the API.
type Pods struct {
	typed.PodInterface
	T *testing.T
}

// PodsIn are the pods of a namespace.
func PodsIn(t *testing.T, client kubernetes.Interface, namespace string) Pods {
	return Pods{client.CoreV1().Pods(namespace), t}
}

// WithT are the same pods for a subtest.
func (p Pods) WithT(t *testing.T) Pods { return Pods{p.PodInterface, t} }

func (p Pods) MustCreate(all ...*corev1.Pod) {
	p.T.Helper()
	for _, one := range all {
		_, err := p.Create(p.T.Context(), one, CreateOptions)
		Must(p.T, err)
	}
}

// find returns nil if there is no such pod.
func (p Pods) find(name string) (*corev1.Pod, error) {
	found, err := p.Get(p.T.Context(), name, GetOptions)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// Await returns a pod once it is as wanted. is gets nil if there is no such pod.
func (p Pods) Await(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	p.T.Helper()
	return p.AwaitWithin(WaitTimeout, name, what, is)
}

func (p Pods) AwaitWithin(limit time.Duration, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	p.T.Helper()
	var found *corev1.Pod
	Within(p.T, limit, func() error {
		got, err := p.find(name)
		if err == nil && !is(got) {
			err = fmt.Errorf("pod %s is not %s: %+v", name, what, got)
		}
		found = got
		return err
	})
	return found
}

// MustRemove deletes pods and returns once they are gone.
func (p Pods) MustRemove(names ...string) {
	p.T.Helper()
	for _, name := range names {
		Must(p.T, p.Delete(p.T.Context(), name, metav1.DeleteOptions{}))
	}
	for _, name := range names {
		p.Await(name, "gone", IsGone)
	}
}

// AwaitPod returns a pod of namespace default once it is as wanted.
func AwaitPod(t *testing.T, client kubernetes.Interface, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return PodsIn(t, client, "default").Await(name, what, is)
}

// IsReady reports whether a pod is there, has an address and the condition Ready.
func IsReady(p *corev1.Pod) bool {
	return p != nil && p.Status.PodIP != "" && PodCondition(p, corev1.PodReady) == corev1.ConditionTrue
}

// PodCondition is the status of a condition; empty if the pod has none of that kind.
func PodCondition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// IsGone reports whether a pod is not there.
func IsGone(p *corev1.Pod) bool { return p == nil }

// HasPhase returns a function that reports whether a pod has a phase.
func HasPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == phase }
}

// ContainerInstance tells one container from another.
type ContainerInstance struct {
	container string
	Restarts  int32
}

// InstanceOf is the instance of the first container of a pod.
func InstanceOf(p *corev1.Pod) ContainerInstance {
	if p == nil || len(p.Status.ContainerStatuses) == 0 {
		return ContainerInstance{}
	}
	s := p.Status.ContainerStatuses[0]
	return ContainerInstance{s.ContainerID, s.RestartCount}
}

// MustKeepInstance fails the test if a container is not the one that it was.
func MustKeepInstance(t *testing.T, p *corev1.Pod, before ContainerInstance) {
	t.Helper()
	if is := InstanceOf(p); is != before {
		t.Errorf("pod %s has %+v, and before it was %+v", p.Name, is, before)
	}
}

// ProcessesWith returns the processes of this machine that have word among their arguments.
func ProcessesWith(t *testing.T, word string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Must(t, err)
	var found []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00"+word+"\x00")) {
			continue // it may be gone
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		Must(t, err)
		found = append(found, pid)
	}
	return found
}

// AwaitNoProcess returns once no process has word among its arguments.
func AwaitNoProcess(t *testing.T, limit time.Duration, word string) {
	t.Helper()
	Within(t, limit, func() error {
		if left := ProcessesWith(t, word); len(left) > 0 {
			return fmt.Errorf("processes %v of %s are left", left, word)
		}
		return nil
	})
}

// AddStaticPod gives a node a static pod that sleeps, and returns its manifest.
func AddStaticPod(t *testing.T, n *lab.Node, name string) string {
	t.Helper()
	manifest := filepath.Join(n.Manifests, name+".yaml")
	Must(t, os.WriteFile(manifest, fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: %q, args: [sleep]}
`, name, WorkloadImage), 0o644))
	return manifest
}

// WithVolume mounts a volume at /disk of the first container of a pod.
func WithVolume(p *corev1.Pod, source corev1.VolumeSource) *corev1.Pod {
	p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: source}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
	return p
}

// ShortTimeout is for pods that are to end at once, on a busy machine.
const ShortTimeout = 10 * time.Second
