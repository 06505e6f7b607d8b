//go:build real

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/lab"
	"berth/test/lab/control"
)

// readiness is whether a Node was ready, as seen by somebody who watches it.
type readiness struct {
	t    *testing.T
	mu   sync.Mutex
	seen []sight // each differs from the one before
}

type sight struct {
	at      time.Time
	ready   corev1.ConditionStatus
	message string
}

func watchReady(t *testing.T, admin kubernetes.Interface, node string) *readiness {
	t.Helper()
	w, err := admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	must(t, err)
	r := &readiness{t: t}
	done := make(chan struct{})
	t.Cleanup(func() { w.Stop(); <-done })
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*corev1.Node); ok {
				r.add(n)
			}
		}
	}()
	return r
}

func (r *readiness) add(n *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && (len(r.seen) == 0 || r.seen[len(r.seen)-1].ready != c.Status) {
			r.seen = append(r.seen, sight{time.Now(), c.Status, c.Message})
		}
	}
}

// unready is why the Node was ever not ready.
func (r *readiness) unready() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, s := range r.seen {
		if s.ready != corev1.ConditionTrue {
			all = append(all, fmt.Sprintf("%s: %s", s.ready, s.message))
		}
	}
	return all
}

// await returns what was seen first of a status since a moment.
func (r *readiness) await(want corev1.ConditionStatus, since time.Time) sight {
	r.t.Helper()
	var found sight
	within(r.t, patience, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.seen, func(s sight) bool { return s.ready == want && s.at.After(since) })
		if i < 0 {
			return fmt.Errorf("ready is not %s: %+v", want, r.seen)
		}
		found = r.seen[i]
		return nil
	})
	return found
}

// containerdOf is the process of the bundled runtime of a node.
func containerdOf(t *testing.T, n *lab.Node) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Root, "run", "containerd.pid"))
	must(t, err)
	var record struct{ PID int }
	must(t, json.Unmarshal(text, &record))
	return record.PID
}

func TestReadyFollowsTheRuntimeAndTheNetwork(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	admin := clientOf(t, plane, control.Admin())
	n := joinNode(t, plane, "one")
	must(t, plane.AwaitNodes(t.Context()))
	pods := podsIn(t, admin, "default")
	pods.create(onNode(workloadPod("steady", "sleep"), "one"))
	steady := lifeOf(pods.await("steady", "ready", isReady))
	seen := watchReady(t, admin, "one")
	seen.await(corev1.ConditionTrue, time.Time{})

	// follows does something, and returns why the node is then as wanted. The agent's own
	// log tells when it knew, and the cluster has to know a second later.
	follows := func(what string, do func() error, logs string, want corev1.ConditionStatus) string {
		t.Helper()
		mark := markLog(t, n)
		began := time.Now()
		must(t, do())
		shown := seen.await(want, began)
		knew := mark.timeOf(t, logs)
		t.Logf("%s: the agent knew after %s, and the cluster %s later", what, knew.Sub(began).Round(time.Millisecond), shown.at.Sub(knew).Round(time.Millisecond))
		if late := shown.at.Sub(knew); late > time.Second {
			t.Errorf("%s: the cluster knew %s after the agent", what, late)
		}
		return shown.message
	}

	// Without a network the node is not ready, and says why, as soon as that is known.
	network := filepath.Join(n.Root, "cni", "conf", "berth.conflist")
	why := follows("the network goes", func() error { return os.Rename(network, network+".away") }, "the network of pods is not ready", corev1.ConditionFalse)
	if !strings.Contains(why, "container runtime network not ready") {
		t.Errorf("it is not ready since %s", why)
	}
	follows("the network is back", func() error { return os.Rename(network+".away", network) }, "the network of pods is ready again", corev1.ConditionTrue)

	// A runtime that dies is started again, and the node is ready all the while.
	before, ready := containerdOf(t, n), len(seen.unready())
	mark := markLog(t, n)
	killed := time.Now()
	must(t, syscall.Kill(before, syscall.SIGKILL))
	within(t, patience, func() error {
		if !strings.Contains(mark.since(t), "containerd is up again") {
			return fmt.Errorf("containerd is not up again: %s", mark.since(t))
		}
		return nil
	})
	t.Logf("containerd was up again %s after it was killed", mark.timeOf(t, "containerd is up again").Sub(killed).Round(time.Millisecond))
	pods.create(onNode(workloadPod("later", "sleep"), "one"))
	pods.await("later", "ready", isReady)
	if after := containerdOf(t, n); after == before {
		t.Errorf("containerd is still process %d", after)
	}
	if why := seen.unready(); len(why) != ready {
		t.Errorf("the node was not ready: %q", why)
	}

	// One that hangs gets some time. Then the node is not ready, until it answers.
	hung := containerdOf(t, n)
	t.Cleanup(func() { _ = syscall.Kill(hung, syscall.SIGCONT) })
	why = follows("the runtime hangs", func() error { return syscall.Kill(hung, syscall.SIGSTOP) }, "the container runtime is not ready", corev1.ConditionFalse)
	if !strings.Contains(why, "container runtime not ready") || strings.Contains(why, "network") {
		t.Errorf("it is not ready since %s", why)
	}
	follows("the runtime answers again", func() error { return syscall.Kill(hung, syscall.SIGCONT) }, "the container runtime is ready again", corev1.ConditionTrue)
	mustBeSame(t, pods.await("steady", "ready", isReady), steady)
}
