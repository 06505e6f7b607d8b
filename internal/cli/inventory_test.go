package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api"
	"berth/internal/api/localapi"
	"berth/internal/lib/pod"
)

// fakeInventory is what there is on the node of these tests.
type fakeInventory struct{}

func (fakeInventory) Node(context.Context) (*v1.Node, error) { return newNodeObject(), nil }

func (fakeInventory) Images(context.Context) ([]api.Image, error) {
	return []api.Image{
		{ID: "sha256:0123456789abcdef", Tags: []string{"localhost/app:1", "localhost/app:2"}, Size: 5 << 20, Pods: []string{"x/web", "y/db"}},
		{ID: "sha256:fedc", Digests: []string{"localhost/old@sha256:aa"}, Size: 100, Pinned: true},
	}, nil
}

func (fakeInventory) Volumes(context.Context) ([]api.Volume, error) {
	return []api.Volume{
		{Namespace: "x", Pod: "web-node-1", UID: "x-web", Name: "data", Kind: "emptyDir", Source: "memory", Path: "/pods/x/data", Since: new(time.Now().Add(-2 * time.Hour)), Capacity: ptr(int64(64 << 20)), Used: ptr(int64(1 << 20))},
		{Namespace: "x", Pod: "db-node-1", UID: "x-db", Name: "files", Kind: "hostPath", Source: "/srv"},
	}, nil
}

func (fakeInventory) Probes(p *v1.Pod) []api.ProbeResult {
	return []api.ProbeResult{{Container: p.Spec.Containers[0].Name, Kind: "Readiness", At: time.Now(), Outcome: "failed", Output: "HTTP 503", InARow: 3}}
}

func (fakeInventory) Waterfall(uid pod.UID) (api.Waterfall, bool) {
	end := noon().Add(time.Second)
	return api.Waterfall{Seen: noon(), Phases: []api.Phase{{Name: "queue", Start: noon(), End: &end}}}, uid == "x-web"
}

// ServeHTTP answers as the kubelet's API does.
func (fakeInventory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stats/summary" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(newSummary())
}

func withInventory(c *localapi.Config) {
	c.Inventory, c.Waterfalls, c.Node = fakeInventory{}, fakeInventory{}, fakeInventory{}
}

func newNodeObject() *v1.Node {
	amounts := v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", CreationTimestamp: metav1.NewTime(time.Now().Add(-3 * time.Hour)), Labels: map[string]string{"node-role.kubernetes.io/edge": ""}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoExecute}}},
		Status: v1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "all is well", LastTransitionTime: before(time.Hour)}},
			NodeInfo:   v1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Debian", KernelVersion: "6.1", ContainerRuntimeVersion: "containerd://2"},
		},
	}
}

func newSummary() stats.Summary {
	measured := func(cpu, memory uint64) (*stats.CPUStats, *stats.MemoryStats) {
		return &stats.CPUStats{UsageNanoCores: &cpu}, &stats.MemoryStats{WorkingSetBytes: &memory}
	}
	container := func(name string, cpu, memory uint64) stats.ContainerStats {
		c := stats.ContainerStats{Name: name}
		c.CPU, c.Memory = measured(cpu, memory)
		return c
	}
	web := stats.PodStats{
		PodRef:     stats.PodReference{Namespace: "x", Name: "web-node-1", UID: "x-web"},
		Containers: []stats.ContainerStats{container("app", 100e6, 64<<20), container("side", 1e6, 8<<20)},
	}
	db := stats.PodStats{PodRef: stats.PodReference{Namespace: "x", Name: "db-node-1", UID: "x-db"}, Containers: []stats.ContainerStats{{Name: "sql"}}}
	db.CPU, db.Memory = measured(5, 100<<20)
	s := stats.Summary{Node: stats.NodeStats{NodeName: "node-1"}, Pods: []stats.PodStats{web, db}}
	s.Node.CPU, s.Node.Memory = measured(500e6, 256<<20)
	return s
}

func TestInventory(t *testing.T) {
	a := startAgent(t, withInventory)
	a.set(nil, runningPod("x", "web", "app"), runningPod("x", "db", "sql"))
	cases := []struct{ args, want string }{
		{"get node", `
NAME     STATUS   ROLES   AGE    VERSION
node-1   Ready    edge    3h     v1.36.3
`},
		{"get nodes -o wide", `
NAME     STATUS   ROLES   AGE    VERSION   INTERNAL-IP   OS-IMAGE   KERNEL-VERSION   CONTAINER-RUNTIME
node-1   Ready    edge    3h     v1.36.3   10.0.0.1      Debian     6.1              containerd://2
`},
		{"get node -o name", "node/node-1\n"},
		{"get node -o jsonpath={.status.allocatable.memory}", "1Gi"},
		{"get node -o jsonpath=.kind", "Node"},
		{"get node -o jsonpath={.nope}", ""},
		{"get pods -o jsonpath={.items[*].metadata.name}", "db-node-1 web-node-1"},
		{"get pods web -o jsonpath={.status.podIP}", "10.0.0.7"},
		{"get images", `
NAME            TAG      IMAGE ID       SIZE    PINNED   PODS
localhost/app   1        0123456789ab   5.0Mi   False    2
localhost/app   2        0123456789ab   5.0Mi   False    2
localhost/old   <none>   fedc           100     True     0
`},
		{"get images -o wide", `
NAME            TAG      IMAGE ID                  SIZE    PINNED   PODS   USED BY
localhost/app   1        sha256:0123456789abcdef   5.0Mi   False    2      x/web,y/db
localhost/app   2        sha256:0123456789abcdef   5.0Mi   False    2      x/web,y/db
localhost/old   <none>   sha256:fedc               100     True     0      <none>
`},
		{"get images -o name", "localhost/app:1\nlocalhost/app:2\nlocalhost/old@sha256:aa\n"},
		{"get images -o jsonpath={.items[0].id}", "sha256:0123456789abcdef"},
		{"get volumes", `
POD          VOLUME   KIND       SOURCE   SIZE     USED     AGE
web-node-1   data     emptyDir   memory   64Mi     1.0Mi    120m
db-node-1    files    hostPath   /srv     <none>   <none>   <none>
`},
		{"get volumes web -o wide -A", `
NAMESPACE   POD          VOLUME   KIND       SOURCE   SIZE   USED    AGE    PATH
x           web-node-1   data     emptyDir   memory   64Mi   1.0Mi   120m   /pods/x/data
`},
		{"get volumes db -o name", "volume/db-node-1/files\n"},
		{"top pods", `
NAME         CPU(cores)   MEMORY(bytes)
db-node-1    1m           100Mi
web-node-1   101m         72Mi
`},
		{"top pods --sort-by cpu -A", `
NAMESPACE   NAME         CPU(cores)   MEMORY(bytes)
x           web-node-1   101m         72Mi
x           db-node-1    1m           100Mi
`},
		{"top pods --sort-by memory --containers", `
POD          NAME   CPU(cores)   MEMORY(bytes)
web-node-1   app    100m         64Mi
web-node-1   side   1m           8Mi
db-node-1    sql    <unknown>    <unknown>
`},
		{"top pods db", `
NAME        CPU(cores)   MEMORY(bytes)
db-node-1   1m           100Mi
`},
		{"top node", `
NAME     CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)
node-1   500m         25%      256Mi           25%
`},
		{"waterfall web", `
PHASE       START        TOOK
queue        +0ms       1.00s  █████████████████████████████████████████████████
total                   1.00s
`},
	}
	t.Setenv("COLUMNS", "80")
	for _, c := range cases {
		got := a.berth(t, strings.Fields(c.args)...)
		// Trailing space, and an age that is a matter of rounding, do not count
		if out := strings.NewReplacer("3h0m", "3h", "180m", "3h  ").Replace(got.out); got.code != 0 || got.stderr != "" || !sameText(out, strings.TrimPrefix(c.want, "\n")) {
			t.Errorf("berth %s: got code %d, stderr %q,\n%s\nwant\n%s", c.args, got.code, got.stderr, got.out, c.want)
		}
	}
}

// sameText compares texts by their words: how wide columns are is for package table
// to know.
func sameText(got, want string) bool {
	fields := func(s string) string {
		var out []string
		for l := range strings.Lines(s) {
			out = append(out, strings.Join(strings.Fields(l), " "))
		}
		return strings.Join(out, "\n")
	}
	return fields(got) == fields(want)
}

func TestInventoryOfAnAgentThatDoesNotKnow(t *testing.T) {
	a := startAgent(t)
	a.set(nil, runningPod("x", "web", "app"))
	for args, want := range map[string]string{
		"get node":      "error: this agent does not know about its node\n",
		"get images":    "error: this agent does not know about images\n",
		"get volumes":   "error: this agent does not know about volumes\n",
		"waterfall web": "error: this agent does not know about how pods start\n",
	} {
		if got := a.berth(t, strings.Fields(args)...); got != (result{code: 1, stderr: want}) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
	// A pod is described nevertheless
	if got := a.berth(t, "describe", "pod", "web"); got.code != 0 || !strings.Contains(got.out, "Volumes:  <none>") {
		t.Errorf("got %+v", got)
	}
}

func TestDescribeNode(t *testing.T) {
	n := newNodeObject()
	n.CreationTimestamp = before(24 * time.Hour)
	web, ended := crashingPod(), runningPod("x", "done", "app")
	ended.Status.Phase = v1.PodSucceeded
	got := describeNode(n, []v1.Pod{*ended, *web}, noon())
	for _, want := range []string{
		"Name:           node-1\n", "Roles:          edge\n", "Taints:         a=b:NoExecute\n",
		"  Ready   True     60m     KubeletReady   all is well\n",
		"  InternalIP:  10.0.0.1\n", "Allocatable:\n  cpu:     2\n  memory:  1Gi\n",
		"Pods:  (1 that have not ended)\n", "web-node-1   100m (5%)      500m (25%)   0 (0%)            64Mi (6%)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	a := startAgent(t, withInventory)
	if got := a.berth(t, "describe", "node"); got.code != 0 || !strings.HasPrefix(got.out, "Name:") {
		t.Errorf("got %+v", got)
	}
}

func TestDescribePodTellsWhatTheAgentKnows(t *testing.T) {
	a := startAgent(t, withInventory)
	web := runningPod("x", "web", "app")
	web.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	a.set([]pod.Refusal{{Origin: "/m/web.yaml", Pod: "x/web-node-1", Message: "bad", Kept: true}, {Origin: "/m/db.yaml", Pod: "x/db-node-1", Message: "other"}}, web)
	got := a.berth(t, "describe", "pod", "web")
	for _, want := range []string{"HTTP 503", "Path:    /pods/x/data", "Refused:  /m/web.yaml: bad"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("there is no %q in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "other") || strings.Contains(got.out, "/srv") {
		t.Errorf("it tells of another pod:\n%s", got.out)
	}
}

func TestDrawWaterfall(t *testing.T) {
	at := func(ms int) time.Time { return noon().Add(time.Duration(ms) * time.Millisecond) }
	phase := func(name, container string, from, to int) api.Phase {
		p := api.Phase{Name: name, Container: container, Start: at(from)}
		if to >= 0 {
			p.End = new(at(to))
		}
		return p
	}
	w := &api.Waterfall{Seen: at(0), Phases: []api.Phase{
		phase("queue", "", 0, 50), phase("pull", "app", 50, 650), phase("sandbox", "", 100, 300), phase("ready", "", 900, -1),
	}}
	want := `PHASE          START        TOOK
queue           +0ms        50ms  █
pull app       +50ms       600ms   ████████████
sandbox       +100ms       200ms    ████
ready         +900ms      100ms+                    ██
total                      1.00s
`
	if got := drawWaterfall(w, 54, false, at(1000)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Nothing is too narrow, too short or too long to be drawn
	tiny := &api.Waterfall{Phases: []api.Phase{phase("a", "", 5, 5), phase("b", "", 5, 1)}}
	if got := drawWaterfall(tiny, 1, true, at(0)); strings.Count(got, "█") != 2 || !strings.Contains(got, cyan) {
		t.Errorf("got\n%s", got)
	}
	if got := drawWaterfall(&api.Waterfall{}, 80, false, at(0)); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestColors(t *testing.T) {
	a := startAgent(t)
	bad := runningPod("x", "bad", "app")
	bad.Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff")
	a.set(nil, runningPod("x", "web", "app"), bad)
	plain := a.berth(t, "get", "pods")
	if strings.Contains(plain.out, "\x1b") {
		t.Errorf("what is no terminal is given colours: %q", plain.out)
	}
	got := a.berth(t, "get", "pods", "--color", "always")
	if !strings.Contains(got.out, red+"CrashLoopBackOff"+uncolor) || !strings.Contains(got.out, green+"Running"+uncolor) {
		t.Errorf("got %q", got.out)
	}
	if without := strings.NewReplacer(red, "", green, "", uncolor, "").Replace(got.out); without != plain.out {
		t.Errorf("colours move columns: got\n%swant\n%s", without, plain.out)
	}
	if got := a.berth(t, "get", "pods", "--color", "pink"); got.code != 1 || !strings.Contains(got.stderr, "auto, always, never") {
		t.Errorf("got %+v", got)
	}
	for status, want := range map[string]string{
		"STATUS": "", "Completed": green, "Init:1/2": yellow, "Init:Error": red, "ErrImagePull": red, "Terminating": yellow, "Evicted": red,
	} {
		if got := statusColor(status); got != want {
			t.Errorf("%s: got %q", status, got)
		}
	}
}
