//go:build real

package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	machine "berth/internal/cluster/node"
	"berth/internal/runtime/ociarchive"
	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
)

// Memory and process numbers are those of the whole machine, on which other tests come
// and go. What they take meanwhile should be less than the margins.
const (
	memoryMargin = 3 << 30
	mostMemory   = 8 << 30 // that is taken to cross it, whatever others give back
	pidsMargin   = 2000
	diskSize     = 512 << 20
)

// shortNode is a node that runs out of things.
type shortNode struct {
	t     *testing.T
	admin kubernetes.Interface
	name  string
}

func (n shortNode) get() *corev1.Node {
	n.t.Helper()
	node, err := n.admin.CoreV1().Nodes().Get(n.t.Context(), n.name, kit.GetOptions)
	kit.Must(n.t, err)
	return node
}

// pressureTaints are the taints that a cluster adds to nodes with a pressure condition.
var pressureTaints = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: corev1.TaintNodeMemoryPressure,
	corev1.NodeDiskPressure:   corev1.TaintNodeDiskPressure,
	corev1.NodePIDPressure:    corev1.TaintNodePIDPressure,
}

// awaits returns once these are the pressures that the node shows, and the taints that
// its cluster has given it are theirs.
func (n shortNode) awaits(what string, want ...corev1.NodeConditionType) {
	n.t.Helper()
	began := time.Now()
	kit.Within(n.t, kit.WaitTimeout, func() error {
		node := n.get()
		for kind := range pressureTaints {
			if shown := nodeCondition(node, kind) == corev1.ConditionTrue; shown != slices.Contains(want, kind) {
				return fmt.Errorf("%s: want %v: %+v", what, want, node.Status.Conditions)
			}
		}
		return nil
	})
	shown := time.Since(began)
	kit.Within(n.t, kit.WaitTimeout, func() error {
		node := n.get()
		for kind, key := range pressureTaints {
			tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == corev1.TaintEffectNoSchedule })
			if tainted != slices.Contains(want, kind) {
				return fmt.Errorf("%s: want %v: %+v", what, want, node.Spec.Taints)
			}
		}
		return nil
	})
	n.t.Logf("%s: it was shown after %s, and the taints were right after %s", what, shown.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// eventCount is how often an event of the node has occurred.
func (n shortNode) eventCount(reason string) (times int32) {
	n.t.Helper()
	events, err := n.admin.CoreV1().Events(metav1.NamespaceAll).List(n.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + n.name + ",reason=" + reason,
	})
	kit.Must(n.t, err)
	for _, e := range events.Items {
		times += e.Count
	}
	return times
}

func TestANodeShowsWhatItRunsOutOf(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	admin := kit.Client(t, plane, control.Admin())
	left, err := machine.Host{Storage: "/"}.Available()
	kit.Must(t, err)
	memory := resource.NewQuantity(left.Memory.Left-memoryMargin, resource.BinarySI)
	n := kit.JoinNodeAs(t, plane, lab.NodeConfig{
		Name: "short", Disk: diskSize,
		Settings: fmt.Sprintf("evictionHard: {memory.available: '%s', nodefs.available: 30%%, nodefs.inodesFree: 5%%, imagefs.available: 20%%, pid.available: '%d'}\nevictionPressureTransitionPeriod: 1s\nimageMinimumGCAge: 1ms\n",
			memory, left.PIDs.Left-pidsMargin),
	})
	kit.Must(t, plane.AwaitNodes(t.Context()))
	node := shortNode{t, admin, "short"}
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("steady", "sleep"), "short"))
	steady := kit.InstanceOf(pods.Await("steady", "ready", kit.IsReady))

	addImage(t, n, "localhost/spare:1") // no container uses it

	// What has to be left is not for pods.
	node.awaits("at first")
	status := node.get().Status
	all, forPods := status.Capacity.Memory().Value(), status.Allocatable.Memory().Value()
	if want := all - memory.Value(); forPods != want {
		t.Errorf("pods may have %d of %d bytes of memory, want %d", forPods, all, want)
	}
	all, forPods = status.Capacity.StorageEphemeral().Value(), status.Allocatable.StorageEphemeral().Value()
	if want := all - int64(0.3*float64(all)); forPods != want {
		t.Errorf("pods may have %d of %d bytes of disk, want %d", forPods, all, want)
	}

	filler := filepath.Join(n.Root, "filler")
	plain := func(name string, args ...string) *corev1.Pod {
		return kit.OnNode(kit.WorkloadPod(name, args...), "short")
	}
	promised := func(name string, args ...string) *corev1.Pod {
		p := plain(name, args...)
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
		return p
	}
	runs := func(args ...string) func() { return func() { pods.MustCreate(plain("eater", args...)) } }
	ends := func() { pods.MustRemove("eater") }
	for _, test := range []struct {
		condition  corev1.NodeConditionType
		bad, good  string // the events
		begin, end func()
		refused    func(name string, args ...string) *corev1.Pod
	}{
		{corev1.NodeDiskPressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure", func() { fillDisk(t, filler) }, func() { kit.Must(t, os.Remove(filler)) }, promised},
		{corev1.NodePIDPressure, "NodeHasInsufficientPID", "NodeHasSufficientPID", runs("threads", fmt.Sprint(2*pidsMargin)), ends, promised},
		{corev1.NodeMemoryPressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory", runs("hoard", fmt.Sprint(memory.Value()>>20-512), fmt.Sprint(mostMemory>>20)), ends, plain},
	} {
		// When something runs out, the node says so, its cluster sends it no more pods, and it refuses those that come.
		bad, good := node.eventCount(test.bad), node.eventCount(test.good)
		test.begin()
		node.awaits(string(test.condition)+" begins", test.condition)
		if test.condition == corev1.NodeDiskPressure {
			awaitImage(t, n, "localhost/spare:1", false)
		}
		pods.MustCreate(test.refused("late", "sleep"))
		refused := pods.Await("late", "refused", kit.HasPhase(corev1.PodFailed))
		if want := fmt.Sprintf("Pod was rejected: The node had condition: [%s]. ", test.condition); refused.Status.Reason != "Evicted" || refused.Status.Message != want {
			t.Errorf("%s: refused as %s: %q", test.condition, refused.Status.Reason, refused.Status.Message)
		}
		if test.condition == corev1.NodeMemoryPressure {
			pods.MustCreate(promised("promised", "sleep"))
			pods.Await("promised", "ready", kit.IsReady)
		}

		// When there is enough again, all of that ends.
		test.end()
		node.awaits(string(test.condition) + " ends")
		pods.MustRemove("late")
		pods.MustCreate(test.refused("late", "sleep"))
		pods.Await("late", "ready", kit.IsReady)
		pods.MustRemove("late")
		kit.Within(t, kit.WaitTimeout, func() error {
			if nowBad, nowGood := node.eventCount(test.bad), node.eventCount(test.good); nowBad <= bad || nowGood <= good {
				return fmt.Errorf("%s was reported %d times and %s %d times, before %d and %d", test.bad, nowBad, test.good, nowGood, bad, good)
			}
			return nil
		})
	}
	kit.MustKeepInstance(t, pods.Await("steady", "ready", kit.IsReady), steady)
}

// addImage has a node import an image. One whose archive is there would be kept.
func addImage(t *testing.T, n *lab.Node, name string) {
	t.Helper()
	var content bytes.Buffer
	kit.Must(t, ociarchive.Write(&content, ociarchive.Image{Tag: name, Entrypoint: []string{"/none"}}))
	file := filepath.Join(n.Root, "images", "added.tar")
	kit.Must(t, os.WriteFile(file+".part", content.Bytes(), 0o644))
	kit.Must(t, os.Rename(file+".part", file))
	awaitImage(t, n, name, true)
	kit.Must(t, os.Remove(file))
}

// awaitImage returns once an image is on a node, or no longer is.
func awaitImage(t *testing.T, n *lab.Node, name string, there bool) {
	t.Helper()
	repository, tag, _ := strings.Cut(name, ":")
	kit.Within(t, kit.WaitTimeout, func() error {
		out, err := n.Berth("image", "ls")
		if err == nil && regexp.MustCompile(repository+`(:| +)`+tag).MatchString(out) != there {
			err = fmt.Errorf("want %s: %t, of\n%s", name, there, out)
		}
		return err
	})
}

// fillDisk leaves little on the disk that a file is on.
func fillDisk(t *testing.T, file string) {
	t.Helper()
	const leave = 64 << 20
	var fs unix.Statfs_t
	kit.Must(t, unix.Statfs(filepath.Dir(file), &fs))
	f, err := os.Create(file)
	kit.Must(t, err)
	defer f.Close()
	kit.Must(t, unix.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-leave))
}
