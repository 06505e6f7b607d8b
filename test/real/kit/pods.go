//go:build real

package kit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/lib/pod"
)

// StartTimeout is how long pods may take to run on a machine that is busy.
const StartTimeout = time.Minute

// NewPod is a pod with one container, app, that runs the workload.
func NewPod(name string, args ...string) *v1.Pod {
	p := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
	}
	p.Spec.TerminationGracePeriodSeconds = new(int64(5))
	p.Spec.Containers = []v1.Container{NewContainer("app", args...)}
	return p
}

// NewContainer is a container that runs the workload.
func NewContainer(name string, args ...string) v1.Container {
	return v1.Container{Name: name, Image: WorkloadImage, Args: args}
}

// Manifest is a YAML file with a document for each object.
func Manifest[T any](t *testing.T, objects ...T) []byte {
	t.Helper()
	var docs [][]byte
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, text)
	}
	return bytes.Join(docs, []byte("---\n"))
}

// Apply writes pods into a file of the folder of manifests.
func (n *Node) Apply(file string, pods ...*v1.Pod) {
	n.T.Helper()
	n.ReplaceFile(filepath.Join(n.Manifests, file), Manifest(n.T, pods...))
}

func (n *Node) RemoveManifest(file string) {
	n.T.Helper()
	if err := os.Remove(filepath.Join(n.Manifests, file)); err != nil {
		n.T.Fatal(err)
	}
}

// List is the answer of the agent to `berth get pods`, without the cost of a new process each time.
func (n *Node) List() (*api.List, error) {
	c, err := client.New(n.Root)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Pods(n.T.Context(), client.Filter{})
}

// Pods are all pods, by their names in the manifests.
func (n *Node) Pods() map[string]v1.Pod {
	n.T.Helper()
	list, err := n.List()
	if err != nil {
		n.T.Fatal(err)
	}
	out := map[string]v1.Pod{}
	for _, p := range list.Pods.Items {
		out[strings.TrimSuffix(p.Name, "-"+NodeName)] = p
	}
	return out
}

func (n *Node) Pod(name string) v1.Pod {
	n.T.Helper()
	p, ok := n.Pods()[name]
	if !ok {
		n.T.Fatalf("there is no pod %s", name)
	}
	return p
}

func (n *Node) Refusals() []pod.Refusal {
	n.T.Helper()
	list, err := n.List()
	if err != nil {
		n.T.Fatal(err)
	}
	return list.Refused
}

// WaitPod waits until a pod is as it should be: missing says what is not.
func (n *Node) WaitPod(name, what string, limit time.Duration, missing func(v1.Pod) string) v1.Pod {
	n.T.Helper()
	var found v1.Pod
	n.Wait("pod "+name+" "+what, limit, func() string {
		var ok bool
		if found, ok = n.Pods()[name]; !ok {
			return "the pod"
		}
		if m := missing(found); m != "" {
			return m + ", in " + Summary(found)
		}
		return ""
	})
	return found
}

// WaitRunning waits until all of these pods run, and returns them.
func (n *Node) WaitRunning(names ...string) map[string]v1.Pod {
	n.T.Helper()
	var pods map[string]v1.Pod
	n.Wait(fmt.Sprint("to run: ", names), StartTimeout, func() string {
		pods = n.Pods()
		var missing []string
		for _, name := range names {
			if p, ok := pods[name]; !ok || !IsRunning(p) {
				missing = append(missing, name+" "+Summary(p))
			}
		}
		return strings.Join(missing, ", ")
	})
	return pods
}

// WaitGone waits until the agent knows nothing of these pods any more.
func (n *Node) WaitGone(names ...string) {
	n.T.Helper()
	n.WaitGoneWithin(StartTimeout, names...)
}

// WaitGoneWithin is WaitGone for pods that may take longer to go.
func (n *Node) WaitGoneWithin(limit time.Duration, names ...string) {
	n.T.Helper()
	n.Wait(fmt.Sprint("to be gone: ", names), limit, func() string {
		pods := n.Pods()
		var left []string
		for _, name := range names {
			if p, ok := pods[name]; ok {
				left = append(left, name+" to go: "+Summary(p))
			}
		}
		return strings.Join(left, ", ")
	})
}

// WaitAnswer waits until a server of the node's network answers. A container
// runs for a moment before its server listens.
func (n *Node) WaitAnswer(address, path string) string {
	n.T.Helper()
	var got string
	n.Wait("an answer from "+address, 10*time.Second, func() string {
		var err error
		if got, err = n.Get(address, path); err != nil {
			return err.Error()
		}
		return ""
	})
	return got
}

// IsRunning reports whether all of a pod is up, and stays.
func IsRunning(p v1.Pod) bool {
	if p.Status.Phase != v1.PodRunning || p.DeletionTimestamp != nil || p.Status.PodIP == "" {
		return false
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running == nil || !c.Ready {
			return false
		}
	}
	return len(p.Status.ContainerStatuses) == len(p.Spec.Containers)
}

// AppStatus is the status of a pod's first container.
func AppStatus(p v1.Pod) v1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return v1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

// ContainerIDs are the containers of a pod by name, as the runtime calls them.
func ContainerIDs(p v1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range p.Status.ContainerStatuses {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		out[c.Name] = id
	}
	return out
}

// Summary is the status of a pod on one line, for messages.
func Summary(p v1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(%s %s", p.Status.Phase, p.Status.PodIP)
	for _, c := range p.Status.ContainerStatuses {
		fmt.Fprintf(&b, "; %s restarts=%d", c.Name, c.RestartCount)
		switch s := c.State; {
		case s.Waiting != nil:
			fmt.Fprintf(&b, " waiting: %s: %s", s.Waiting.Reason, s.Waiting.Message)
		case s.Terminated != nil:
			fmt.Fprintf(&b, " ended: %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
		case s.Running != nil:
			b.WriteString(" running")
		}
	}
	if p.DeletionTimestamp != nil {
		b.WriteString("; leaving")
	}
	return b.String() + ")"
}

// NumberedPods makes n pods: prefix-00, prefix-01 and so on.
func NumberedPods(prefix string, n int, args ...string) (pods []*v1.Pod, names []string) {
	for i := range n {
		p := NewPod(fmt.Sprintf("%s-%02d", prefix, i), args...)
		pods, names = append(pods, p), append(names, p.Name)
	}
	return pods, names
}

// JobPod is a pod that ends.
func JobPod(args ...string) *v1.Pod {
	p := NewPod("job", args...)
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	return p
}

// Buffer may be read while a command writes to it.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// WithRestartPolicy sets the restart policy of a pod.
func WithRestartPolicy(policy v1.RestartPolicy, p *v1.Pod) *v1.Pod {
	p.Spec.RestartPolicy = policy
	return p
}

// Sidecar makes an init container restartable.
func Sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}
