//go:build real

package real

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/lib/pod"
)

// startLimit is how long pods may take to run on a machine that is busy.
const startLimit = time.Minute

// newPod is a pod with one container, app, that runs the workload.
func newPod(name string, args ...string) *v1.Pod {
	p := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
	}
	p.Spec.TerminationGracePeriodSeconds = new(int64(5))
	p.Spec.Containers = []v1.Container{newContainer("app", args...)}
	return p
}

func newContainer(name string, args ...string) v1.Container {
	return v1.Container{Name: name, Image: workloadImage, Args: args}
}

// manifest is pods as a file of the folder has them.
func manifest(t *testing.T, pods ...*v1.Pod) []byte {
	t.Helper()
	var docs [][]byte
	for _, p := range pods {
		text, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, text)
	}
	return bytes.Join(docs, []byte("---\n"))
}

// apply writes pods into a file of the folder.
func (n *node) apply(file string, pods ...*v1.Pod) {
	n.t.Helper()
	n.put(filepath.Join(n.manifests, file), manifest(n.t, pods...))
}

func (n *node) remove(file string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.manifests, file)); err != nil {
		n.t.Fatal(err)
	}
}

// list is what `berth get pods` is told, without the cost of a new process each time.
func (n *node) list() (*api.List, error) {
	c, err := client.New(n.root)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Pods(n.t.Context(), client.Filter{})
}

// pods are all pods, by their names in the manifests.
func (n *node) pods() map[string]v1.Pod {
	n.t.Helper()
	list, err := n.list()
	if err != nil {
		n.t.Fatal(err)
	}
	out := map[string]v1.Pod{}
	for _, p := range list.Pods.Items {
		out[strings.TrimSuffix(p.Name, "-"+nodeName)] = p
	}
	return out
}

func (n *node) pod(name string) v1.Pod {
	n.t.Helper()
	p, ok := n.pods()[name]
	if !ok {
		n.t.Fatalf("there is no pod %s", name)
	}
	return p
}

func (n *node) refused() []pod.Refusal {
	n.t.Helper()
	list, err := n.list()
	if err != nil {
		n.t.Fatal(err)
	}
	return list.Refused
}

// waitPod waits until a pod is as it should be: missing says what is not.
func (n *node) waitPod(name, what string, limit time.Duration, missing func(v1.Pod) string) v1.Pod {
	n.t.Helper()
	var found v1.Pod
	n.wait("pod "+name+" "+what, limit, func() string {
		var ok bool
		if found, ok = n.pods()[name]; !ok {
			return "the pod"
		}
		if m := missing(found); m != "" {
			return m + ", in " + summary(found)
		}
		return ""
	})
	return found
}

// waitRunning waits until all of these pods run, and returns them.
func (n *node) waitRunning(names ...string) map[string]v1.Pod {
	n.t.Helper()
	var pods map[string]v1.Pod
	n.wait(fmt.Sprint("to run: ", names), startLimit, func() string {
		pods = n.pods()
		var missing []string
		for _, name := range names {
			if p, ok := pods[name]; !ok || !isRunning(p) {
				missing = append(missing, name+" "+summary(p))
			}
		}
		return strings.Join(missing, ", ")
	})
	return pods
}

// waitGone waits until the agent knows nothing of these pods any more.
func (n *node) waitGone(names ...string) {
	n.t.Helper()
	n.wait(fmt.Sprint("to be gone: ", names), startLimit, func() string {
		pods := n.pods()
		var left []string
		for _, name := range names {
			if p, ok := pods[name]; ok {
				left = append(left, name+" to go: "+summary(p))
			}
		}
		return strings.Join(left, ", ")
	})
}

// waitAnswer waits until a server of the node's network answers. A container
// runs for a moment before its server listens.
func (n *node) waitAnswer(address, path string) string {
	n.t.Helper()
	var got string
	n.wait("an answer from "+address, 10*time.Second, func() string {
		var err error
		if got, err = n.get(address, path); err != nil {
			return err.Error()
		}
		return ""
	})
	return got
}

// isRunning tells whether all of a pod is up, and stays.
func isRunning(p v1.Pod) bool {
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

// app is the status of a pod's first container.
func app(p v1.Pod) v1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return v1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

// ids are the containers of a pod by name, as the runtime calls them.
func ids(p v1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range p.Status.ContainerStatuses {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		out[c.Name] = id
	}
	return out
}

func summary(p v1.Pod) string {
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

// numbered makes n pods: prefix-00, prefix-01 and so on.
func numbered(prefix string, n int, args ...string) (pods []*v1.Pod, names []string) {
	for i := range n {
		p := newPod(fmt.Sprintf("%s-%02d", prefix, i), args...)
		pods, names = append(pods, p), append(names, p.Name)
	}
	return pods, names
}
