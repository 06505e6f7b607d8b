package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/core"
	"berth/internal/core/admit"
	"berth/internal/core/agent"
	"berth/internal/core/execute"
	"berth/internal/core/plan"
	"berth/internal/core/worker"
	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/orphan"
	"berth/internal/pods/probe"
	"berth/internal/runtime/fake"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/measure"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/waterfall"
)

// node is the core of an agent on a fake runtime, in a bubble with a clock of its own.
type node struct {
	t         testing.TB
	runtime   *fake.Runtime
	hooks     *fake.Hooks
	events    *fake.Events
	upstream  *fake.Upstream
	core      *core.Core
	agent     *agent.Agent
	pool      *worker.Pool
	mu        sync.Mutex
	machine   admit.Node
	removeDir func(dir string) error
	reread    func(context.Context) error // brings machine up to date
	images    *image.Manager
	watcher   *measure.Recorder
	debugs    *notedDebugs
	snapshots chan pod.Snapshot
	stop      func()
}

const testImage = "localhost/app:1"

func inBubble(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

// startNode starts an agent over r. The directory may hold the state of an earlier one.
func startNode(t *testing.T, r *fake.Runtime, dir string) *node {
	t.Helper()
	return startProbing(t, r, dir, &fake.Probes{}, &probe.Manager{})
}

// startProbing starts an agent with these probes, which receives the results of m.
func startProbing(t testing.TB, r *fake.Runtime, dir string, probes execute.Probes, m *probe.Manager) *node {
	t.Helper()
	n := newNode(t, r, dir, probes, m)
	n.core.Start(n.snapshots)
	return n
}

// newNode makes the agent that startProbing starts: the core, as the agent composes it, with fakes of the parts
// around it.
func newNode(t testing.TB, r *fake.Runtime, dir string, probes execute.Probes, m *probe.Manager) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	group := run.NewGroup(t.Context(), log)
	n := &node{t: t, runtime: r, hooks: &fake.Hooks{}, events: &fake.Events{}, upstream: &fake.Upstream{}, snapshots: make(chan pod.Snapshot)}
	n.reread = func(context.Context) error { return nil }
	n.removeDir = os.RemoveAll
	n.debugs = &notedDebugs{Store: openDebugs(t, dir), meanwhile: func() {}}
	measured, err := metrics.New()
	must(t, err)
	n.watcher, err = measure.New(measure.Config{Metrics: measured, Waterfalls: waterfall.New(1000)})
	must(t, err)
	up := make(chan struct{})
	close(up)

	loop, err := core.NewLoop(core.LoopConfig{
		Log: log, Group: group, Runtime: r, RuntimeUp: up, Events: n.events, Upstream: n.upstream, Telemetry: n.watcher,
		Sources: []string{pod.SourceFile}, Desired: desired.New(), Node: n.now, ReloadNode: func(ctx context.Context) error { return n.reread(ctx) },
		InRuntime: r.List, OnDisk: orphan.Dirs{
			Pods: filepath.Join(dir, "pods"), Owner: rootstest.Owner(t, roots.Claim{LogsDir: filepath.Join(dir, "logs")}), Cgroups: noCgroups{},
		}.List,
		EphemeralContainers: n.debugs,
		ProbeResults:        core.ProbeResults{Liveness: m.Liveness, Readiness: m.Readiness, Startup: m.Startup},
	})
	must(t, err)
	n.images, err = image.New(group.Context(), image.Config{Runtime: r, Log: log, Parallel: 2, Enqueue: loop.Agent.Enqueue, Explain: error.Error})
	must(t, err)
	n.core, err = core.New(loop, core.Config{
		Images: n.images, Hooks: n.hooks, Probes: probes, Objects: &fake.Objects{}, Volumes: &fake.Volumes{}, Slots: execute.NewSlots(2),
		Node: render.Node{Name: "node", LogsDir: filepath.Join(dir, "logs"), CgroupRoot: "/test"}, Backoff: plan.DefaultBackoff,
		RuntimeInfo: execute.RuntimeInfo{
			CanMapUsers: func(string) bool { return true }, ImageUser: func(context.Context, string) (render.User, error) { return render.User{}, nil },
			Explain: error.Error,
		},
		Host: execute.Host{
			PodsDir: filepath.Join(dir, "pods"), LogLinksDir: filepath.Join(dir, "links"), UserNamespaces: &fake.UserNamespaces{},
			MakeCgroup: func(context.Context, render.Cgroup) error { return nil }, RemoveCgroup: func(context.Context, string) error { return nil }, RemoveDir: func(dir string) error { return n.removeDir(dir) },
			LogTail:     func(string, int64, int) string { return "the log" },
			Allocatable: func() v1.ResourceList { return nil },
		},
	})
	must(t, err)
	n.agent, n.pool = n.core.Agent, n.core.Pool
	n.stop = func() {
		n.core.Stop()
		n.images.Stop()
	}
	return n
}

// now is the machine as admission sees it.
func (n *node) now() admit.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machine
}

// becomes changes the node that admission sees.
func (n *node) becomes(change func(*admit.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.machine)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants replaces the pods of the folder.
func (n *node) wants(pods ...*v1.Pod) {
	n.t.Helper()
	n.snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Set, Pods: pods}
	synctest.Wait()
}

// binds replaces the pods that the API server has bound to the node.
func (n *node) binds(pods ...*v1.Pod) {
	n.t.Helper()
	n.snapshots <- pod.Snapshot{Source: pod.SourceAPI, Op: pod.Set, Pods: pods}
	synctest.Wait()
}

func (n *node) pod(uid pod.UID) *v1.Pod {
	n.t.Helper()
	synctest.Wait()
	pods, _ := n.agent.List()
	for _, p := range pods {
		if p.UID == uid {
			return p
		}
	}
	n.t.Fatalf("pod %s is not there", uid)
	return nil
}

func (n *node) app(uid pod.UID) v1.ContainerStatus {
	n.t.Helper()
	p := n.pod(uid)
	if len(p.Status.ContainerStatuses) == 0 {
		n.t.Fatalf("pod %s has no container status: %+v", uid, p.Status)
	}
	return p.Status.ContainerStatuses[0]
}

func (n *node) expectPhase(uid pod.UID, want v1.PodPhase) {
	n.t.Helper()
	if got := n.pod(uid).Status.Phase; got != want {
		n.t.Fatalf("pod %s is %s, want %s: %+v", uid, got, want, n.pod(uid).Status)
	}
}

func webPod(uid pod.UID) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Name, p.Namespace = uid, "web-"+string(uid), "default"
	p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile}
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	p.Spec.Containers = []v1.Container{{Name: "app", Image: testImage, ImagePullPolicy: v1.PullIfNotPresent}}
	return p
}

func TestAPodRunsCrashesAndGoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		n.expectPhase("a", v1.PodRunning)
		if !n.app("a").Ready || n.pod("a").Status.PodIP == "" {
			t.Fatalf("not ready, or no address: %+v", n.pod("a").Status)
		}

		must(t, n.runtime.Exit("a", "app", 1))
		if c := n.app("a"); c.State.Running == nil || c.RestartCount != 1 {
			t.Fatalf("the first restart must be at once: %+v", c)
		}
		must(t, n.runtime.Exit("a", "app", 1))
		if c := n.app("a"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonCrashLoopBackOff || c.LastTerminationState.Terminated == nil {
			t.Fatalf("the second must wait: %+v", c)
		}
		n.expectPhase("a", v1.PodRunning)
		time.Sleep(9 * time.Second)
		if c := n.app("a"); c.State.Waiting == nil {
			t.Fatal("it came too early")
		}
		time.Sleep(time.Second)
		if c := n.app("a"); c.State.Running == nil || c.RestartCount != 2 {
			t.Fatalf("after ten seconds it must run again: %+v", c)
		}

		n.wants()
		if pods, _ := n.agent.List(); len(pods) != 0 {
			t.Fatalf("still there: %v", pods)
		}
		if all, _ := n.runtime.List(t.Context()); len(all) != 0 {
			t.Fatalf("the runtime still has %v", all)
		}
	})
}

func TestAFinishedPodStaysFinishedAlsoForTheNextAgent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		job := webPod("job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		n := startNode(t, r, dir)
		n.wants(job)
		must(t, r.Exit("job", "app", 0))
		n.expectPhase("job", v1.PodSucceeded)
		n.stop()

		n = startNode(t, r, dir)
		defer n.stop()
		n.wants(job)
		n.expectPhase("job", v1.PodSucceeded)
		if made := r.Calls("RunSandbox"); made != 1 {
			t.Fatalf("the job ran %d times", made)
		}
	})
}

func TestARestartedAgentTouchesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		n := startNode(t, r, dir)
		n.wants(webPod("a"), webPod("b"))
		must(t, r.Exit("a", "app", 1))
		before := n.app("a")
		n.stop()

		n = startNode(t, r, dir)
		defer n.stop()
		n.wants(webPod("a"), webPod("b"))
		if after := n.app("a"); after.ContainerID != before.ContainerID || after.RestartCount != before.RestartCount {
			t.Fatalf("before %+v\nafter %+v", before, after)
		}
		if started := r.Calls("StartContainer"); started != 3 {
			t.Fatalf("%d containers were started, want 3", started)
		}
	})
}

func TestNothingIsCleanedUpBeforeTheSourceHasSpoken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		n := startNode(t, r, dir)
		n.wants(webPod("a"), webPod("b"))
		n.stop()

		n = startNode(t, r, dir)
		defer n.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if r.Calls("StopContainer") != 0 {
			t.Fatal("a pod was stopped before anybody knew what is wanted")
		}
		n.wants(webPod("a")) // b is an orphan now
		n.expectPhase("a", v1.PodRunning)
		all, err := r.List(t.Context())
		must(t, err)
		if len(all) != 1 || all["a"] == nil {
			t.Fatalf("want only a, got %v", all)
		}
	})
}

func TestABurstStartsAFewAtATimeInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		r.Delay("RunSandbox", time.Second)
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		var pods []*v1.Pod
		for i := range 20 {
			pods = append(pods, webPod(pod.UID(fmt.Sprintf("p%02d", i))))
		}
		n.wants(pods...)
		time.Sleep(5500 * time.Millisecond)
		up := 0
		for _, p := range pods {
			if n.pod(p.UID).Status.Phase == v1.PodRunning {
				up++
			}
		}
		if up != 10 {
			t.Fatalf("%d pods are up in half of the time, want 10", up)
		}
		time.Sleep(5 * time.Second)
		for _, p := range pods {
			n.expectPhase(p.UID, v1.PodRunning)
		}
		if most := r.MaxConcurrentRunSandbox(); most != 2 {
			t.Fatalf("%d sandboxes were made at once, want 2", most)
		}
	})
}

func TestAnImageThatArrivesLaterStartsThePod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New()
		r.Fail("PullImage", errors.New("no such registry"))
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		if c := n.app("a"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonErrImagePull {
			t.Fatalf("want ErrImagePull: %+v", c.State)
		}
		time.Sleep(5 * time.Second)
		if c := n.app("a"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonImagePullBackOff {
			t.Fatalf("want ImagePullBackOff: %+v", c.State)
		}
		r.AddImage(testImage)
		n.images.Recheck(t.Context())
		n.expectPhase("a", v1.PodRunning)
	})
}

func TestEventsThatGetLostAreFoundByTheAudit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		n.runtime.Mute()
		must(t, n.runtime.Exit("a", "app", 1))
		time.Sleep(61 * time.Second)
		if c := n.app("a"); c.RestartCount != 1 || c.State.Running == nil {
			t.Fatalf("nobody noticed: %+v", c)
		}
	})
}

func TestIdleCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"), webPod("b"))
		reads, lists := n.runtime.Calls("Pod"), n.runtime.Calls("List")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := n.runtime.Calls("Pod") - reads; got != 0 {
			t.Errorf("%d pods were read while nothing happened", got)
		}
		if got := n.runtime.Calls("List") - lists; got > 121 { // an audit and a housekeeping each minute
			t.Errorf("the runtime was listed %d times in an hour", got)
		}
	})
}

func TestAPodThatMayNotRunIsFailedAndOthersRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		first, second := webPod("a"), webPod("b")
		for _, p := range []*v1.Pod{first, second} {
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP}}
		}
		n.wants(first)
		n.wants(first, second)
		n.expectPhase("a", v1.PodRunning)
		n.expectPhase("b", v1.PodFailed)
		if reason := n.pod("b").Status.Reason; reason != pod.ReasonNodePorts {
			t.Fatalf("reason %q", reason)
		}
	})
}

func TestACriticalPodTakesTheRoomOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.machine.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("1")}
		n.runtime.Delay("StopContainer", 5*time.Second)
		lowly, critical := webPod("low"), webPod("high")
		critical.Spec.Priority = new(int32(2_000_001_000))
		n.binds(lowly)
		n.expectPhase("low", v1.PodRunning)

		n.binds(lowly, critical)
		n.binds(lowly, critical) // asked again, it is not ended twice
		if made := n.runtime.Calls("RunSandbox"); made != 1 {
			t.Fatal("the critical pod was started before there was room")
		}
		time.Sleep(6 * time.Second)
		n.expectPhase("high", v1.PodRunning)
		n.expectPhase("low", v1.PodFailed)
		if got := n.pod("low").Status; got.Reason != pod.ReasonPreempting || !slices.ContainsFunc(got.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		}) {
			t.Errorf("the other one's status: %+v", got)
		}
	})
}

func TestACriticalPodThatGoesWhileItWaitsForRoomIsNotStarted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.machine.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("1")}
		n.runtime.Delay("StopContainer", 5*time.Second)
		lowly, critical := webPod("low"), webPod("high")
		n.binds(lowly)
		n.wants(critical) // a static one, which is always critical
		n.wants()
		time.Sleep(time.Minute)
		synctest.Wait()
		if made := n.runtime.Calls("RunSandbox"); made != 1 {
			t.Errorf("%d sandboxes were made", made)
		}
		n.expectPhase("low", v1.PodFailed)
	})
}

func TestARuntimeThatFailsIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		r.Fail("CreateContainer", errors.New("disk full"))
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		if c := n.app("a"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonCreateContainerError || c.State.Waiting.Message != "disk full" {
			t.Fatalf("got %+v", c.State)
		}
		r.Fail("CreateContainer", nil)
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
		if made := r.Calls("RunSandbox"); made != 1 {
			t.Fatalf("%d sandboxes were made, want the first to be used", made)
		}
	})
}

// noCgroups is a machine without cgroups.
type noCgroups struct{}

func (noCgroups) List() ([]string, error)       { return nil, nil }
func (noCgroups) Occupied(string) (bool, error) { return false, nil }
