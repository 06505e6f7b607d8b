package agent_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/shutdown"
	"berth/internal/lib/pod"
	"berth/internal/pods/probe"
	"berth/internal/runtime/fake"
)

// A pod may live twice under one UID: its node was drained, a shutdown was cancelled, its
// file was put back, another agent starts it. Whatever was remembered of the first life
// must not show in the second.

// lived is an agent whose one pod is probed, and the directory and runtime that outlive
// the agent.
type lived struct {
	*node
	dir     string
	runtime *fake.Runtime
	manager *shutdown.Manager
	began   time.Time // the second life, at the earliest
	// restarts are the restart counts with which the second life begins, by container.
	restarts map[string]int32

	mu     sync.Mutex
	checks []string       // what probes asked for, and of which container
	fails  map[string]int // how often, by command
}

// startLived starts an agent that runs real probes.
func startLived(t *testing.T, r *fake.Runtime, dir string) *lived {
	t.Helper()
	l := &lived{runtime: r, dir: dir, fails: map[string]int{}}
	probes, err := probe.New(probe.Config{
		Exec: func(_ context.Context, id string, command []string, _ time.Duration) ([]byte, int32, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.checks = append(l.checks, command[0]+" "+id)
			if l.fails[command[0]] > 0 {
				l.fails[command[0]]--
				return nil, 1, nil
			}
			return nil, 0, nil
		},
		Explain: error.Error, Events: &fake.Events{}, Log: slog.New(slog.DiscardHandler), HostIP: func() string { return "127.0.0.1" },
		StateFile: filepath.Join(dir, "probes.json"), ExecSlots: 8,
	})
	must(t, err)
	l.node = startProbing(t, r, dir, probes, probes)
	ctx, cancel := context.WithCancel(t.Context())
	var probing sync.WaitGroup
	probing.Go(func() { probes.Run(ctx) })
	stopAgent := l.stop
	l.stop = func() {
		stopAgent()
		cancel()
		probing.Wait()
	}
	l.manager, err = shutdown.New(shutdown.Config{
		Pods: l.pool, Gate: l.agent, Log: slog.New(slog.DiscardHandler), Periods: []shutdown.Period{{Priority: 0, For: time.Minute}},
	})
	must(t, err)
	return l
}

// failing has the next check with that command fail.
func (l *lived) failing(command string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails[command]++
}

// checked reports whether a probe ran that command in a container.
func (l *lived) checked(command, containerID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.checks, command+" "+containerID[len("containerd://"):])
}

// probedPod has a probe of each kind, hooks, and a sidecar that counts like the others.
func probedPod() *v1.Pod {
	p := withInit(webPod("u"), "setup", "mesh")
	c := &p.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = asks("started?", 2*time.Second), asks("alive?", 2*time.Second), asks("ready?", 2*time.Second)
	c.Lifecycle = &v1.Lifecycle{PreStop: exec("goodbye")}
	p.Spec.ActiveDeadlineSeconds = new(int64(3600))
	return p
}

// liveOnce lets the pod run, crash twice, fail a probe and be looked into.
func (l *lived) liveOnce() {
	t := l.t
	t.Helper()
	l.wants(probedPod())
	must(t, l.runtime.Exit("u", "setup", 0))
	time.Sleep(5 * time.Second)
	expectRunning(l.node, "u", "app", "mesh")
	must(t, l.agent.AddContainer(t.Context(), probedPod(), debugger("look")))
	must(t, l.runtime.Exit("u", "app", 1))
	synctest.Wait()
	must(t, l.runtime.Exit("u", "app", 1))
	time.Sleep(11 * time.Second)
	l.failing("alive?")
	time.Sleep(time.Minute)
	if c := l.app("u"); c.RestartCount < 3 || c.State.Running == nil || !c.Ready {
		t.Fatalf("the first life is not what it should be: %+v", c)
	}
	time.Sleep(25 * time.Minute)
	must(t, l.runtime.Exit("u", "app", 1)) // its last container is young, and has a long wait before it
	time.Sleep(time.Second)
	must(t, l.runtime.Exit("u", "app", 1))
	time.Sleep(11 * time.Second)
	expectRunning(l.node, "u", "app", "look", "mesh")
}

// endings are the ways to come to a second life.
var endings = map[string]func(t *testing.T, l *lived) *lived{
	"drained and undone": func(t *testing.T, l *lived) *lived {
		l.drained(l.manager)
		time.Sleep(40 * time.Minute) // more than is left of the deadline
		l.began = time.Now()
		l.undone(l.manager)
		return l
	},
	"a shutdown is cancelled": func(t *testing.T, l *lived) *lived {
		_, err := l.manager.Shutdown(t.Context())
		must(t, err)
		time.Sleep(40 * time.Minute)
		l.began = time.Now()
		must(t, l.manager.Cancel(t.Context()))
		return l
	},
	"undone while it stops": func(t *testing.T, l *lived) *lived {
		l.runtime.Delay("StopContainer", 5*time.Second)
		go func() { _, _ = l.manager.Drain(t.Context(), shutdown.Order{}, func(shutdown.Progress) {}) }()
		time.Sleep(time.Second)
		l.began = time.Now()
		l.undone(l.manager)
		time.Sleep(20 * time.Second)
		l.runtime.Delay("StopContainer", 0)
		return l
	},
	"its file is put back": func(t *testing.T, l *lived) *lived {
		l.wants()
		time.Sleep(40 * time.Minute)
		l.began = time.Now()
		l.wants(probedPod())
		return l
	},
	"its file is put back while it stops": func(t *testing.T, l *lived) *lived {
		l.restarts = map[string]int32{} // that is a restart, which counts
		for _, s := range append(l.pod("u").Status.InitContainerStatuses, l.app("u")) {
			l.restarts[s.Name] = s.RestartCount + 1
		}
		l.runtime.Delay("StopContainer", 5*time.Second)
		l.wants()
		l.began = time.Now()
		l.wants(probedPod())
		time.Sleep(20 * time.Second)
		l.runtime.Delay("StopContainer", 0)
		return l
	},
	"drained, and another agent comes": func(t *testing.T, l *lived) *lived {
		l.drained(l.manager)
		l.stop()
		time.Sleep(time.Second)
		next := startLived(t, l.runtime, l.dir)
		next.began = time.Now()
		next.wants(probedPod())
		return next
	},
	"the machine is restarted": func(t *testing.T, l *lived) *lived {
		l.stop()
		time.Sleep(40 * time.Minute)
		r := fake.New(testImage)
		release := r.Hold("List")
		next := startLived(t, r, l.dir)
		next.began = time.Now()
		next.remembers(false, probedPod())
		release()
		synctest.Wait() // it knows that nothing runs
		next.wants(probedPod())
		return next
	},
	"the agent dies while it drains": func(t *testing.T, l *lived) *lived {
		l.runtime.Delay("StopSandbox", time.Minute)
		go func() { _, _ = l.manager.Drain(t.Context(), shutdown.Order{}, func(shutdown.Progress) {}) }()
		time.Sleep(10 * time.Second) // the containers are stopped
		l.stop()
		l.runtime.Delay("StopSandbox", 0)
		next := startLived(t, l.runtime, l.dir)
		next.began = time.Now()
		next.wants(probedPod())
		return next
	},
}

func TestASecondLifeIsAWholeLife(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := startLived(t, fake.New(testImage), t.TempDir())
				defer func() { l.stop() }()
				l.liveOnce()
				first := l.app("u").ContainerID
				l = end(t, l)
				l.expectFirstStart()
				l.expectNothingOld(first)
				l.expectProbes()
				l.expectFirstCrash()
				l.expectHooks()
			})
		})
	}
}

// expectFirstStart: containers are started as if none had been before, in their order.
func (l *lived) expectFirstStart() {
	t := l.t
	t.Helper()
	expectRunning(l.node, "u", "mesh", "setup")
	l.expectPhase("u", v1.PodPending)
	for _, s := range l.pod("u").Status.InitContainerStatuses {
		if s.RestartCount != l.restarts[s.Name] {
			t.Errorf("%s begins with %d restarts", s.Name, s.RestartCount)
		}
	}
	if c := l.app("u"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonPodInitializing || c.ContainerID != "" {
		t.Errorf("the container that is still to be made is %+v", c)
	}
	must(t, l.runtime.Exit("u", "setup", 0))
	time.Sleep(5 * time.Second)
	expectRunning(l.node, "u", "app", "mesh")
}

// expectNothingOld checks that no reader sees anything of the first life.
func (l *lived) expectNothingOld(first string) {
	t := l.t
	t.Helper()
	p := l.pod("u")
	s := p.Status
	if s.Phase != v1.PodRunning || s.Reason != "" || s.Message != "" {
		t.Errorf("the pod is %s: %s %s", s.Phase, s.Reason, s.Message)
	}
	for _, c := range s.Conditions {
		if c.Type == v1.DisruptionTarget || c.LastTransitionTime.Time.Before(l.began.Truncate(time.Second)) {
			t.Errorf("a condition of the first life: %+v", c)
		}
	}
	if s.StartTime == nil || s.StartTime.Time.Before(l.began.Truncate(time.Second)) {
		t.Errorf("it started at %v, and began at %v", s.StartTime, l.began)
	}
	if len(s.EphemeralContainerStatuses) > 0 || len(p.Spec.EphemeralContainers) > 0 {
		t.Errorf("what was added to the first life is there: %+v", s.EphemeralContainerStatuses)
	}
	if c := l.app("u"); c.ContainerID == first || c.RestartCount != l.restarts["app"] || !c.Ready || c.Started == nil || !*c.Started {
		t.Errorf("the container is %+v", c)
	}
	fall, ok := l.watcher.Waterfall("u")
	if !ok || !fall.Done || fall.Seen.Before(l.began.Truncate(time.Second)) {
		t.Errorf("the start is reported as %+v", fall)
	}
	for _, phase := range fall.Phases {
		if phase.Start.Before(l.began) {
			t.Errorf("its start has a phase of the first life: %+v", phase)
		}
	}
	if lives := l.pool.Lives(); lives["u"].Cause != (pod.Cause{}) || lives["u"].Removed {
		t.Errorf("its worker says %+v", lives["u"])
	}
}

// expectProbes checks that probes of all three kinds run, and that their results count.
func (l *lived) expectProbes() {
	t := l.t
	t.Helper()
	id := l.app("u").ContainerID
	for _, command := range []string{"started?", "alive?", "ready?"} {
		if !l.checked(command, id) {
			t.Errorf("nobody asks %s", command)
		}
	}
	l.failing("ready?")
	time.Sleep(2 * time.Second)
	if c := l.app("u"); c.Ready {
		t.Error("it is not ready, and nobody hears of it")
	}
	time.Sleep(3 * time.Second)
}

// expectFirstCrash: the first restart is at once, and the second after the shortest wait.
func (l *lived) expectFirstCrash() {
	t := l.t
	t.Helper()
	l.failing("alive?")
	time.Sleep(5 * time.Second)
	if c := l.app("u"); c.State.Running == nil || c.RestartCount != l.restarts["app"]+1 {
		t.Fatalf("after its first crash it is %+v", c)
	}
	must(t, l.runtime.Exit("u", "app", 1))
	if c := l.app("u"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonCrashLoopBackOff {
		t.Fatalf("after its second crash it is %+v", c)
	}
	time.Sleep(10*time.Second + time.Millisecond)
	if c := l.app("u"); c.State.Running == nil || c.RestartCount != l.restarts["app"]+2 {
		t.Fatalf("after the wait it is %+v", c)
	}
}

// expectHooks: the stop of this life runs the hook of its own container.
func (l *lived) expectHooks() {
	t := l.t
	t.Helper()
	before := len(l.hooks.Ran())
	l.wants()
	time.Sleep(time.Minute)
	if ran := l.hooks.Ran()[before:]; !slices.Equal(ran, []string{"goodbye"}) {
		t.Errorf("at the end, %v were run", ran)
	}
	if pods, _ := l.agent.List(); len(pods) != 0 {
		t.Errorf("still there: %v", pods)
	}
}

// A pod that may not run again says why, also after the life before it is gone, whose
// worker had a status of its own.
func TestAPodThatMayNotLiveAgainSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		n.runtime.Delay("StopContainer", 5*time.Second)
		n.wants()
		refused := webPod("a")
		refused.Spec.Volumes = []v1.Volume{{Name: "data"}} // there is no such kind
		n.wants(refused)
		time.Sleep(time.Minute)
		if s := n.pod("a").Status; s.Phase != v1.PodFailed || s.Reason != pod.ReasonFeatureUnsupported {
			t.Errorf("a is %s: %s %s", s.Phase, s.Reason, s.Message)
		}

		n.wants(webPod("b"))
		n.wants()
		n.wants(webPod("b"))
		must(t, n.agent.Hold(t.Context(), pod.Cause{Description: "the node is drained", Passing: true}))
		time.Sleep(time.Minute)
		if s := n.pod("b").Status; s.Phase != v1.PodPending || s.Reason != "NodeShutdown" || s.Message == "" {
			t.Errorf("b is %s: %s %s", s.Phase, s.Reason, s.Message)
		}
	})
}

// Only what ran when the agent came is not asked again: its next life is.
func TestANewLifeHasToBeAdmitted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		n := startNode(t, r, dir)
		n.wants(webPod("a"))
		n.stop()
		n = startNode(t, r, dir)
		defer n.stop()
		n.wants(webPod("a"))
		r.Delay("StopContainer", 5*time.Second)
		n.wants()
		refused := webPod("a")
		refused.Spec.Volumes = []v1.Volume{{Name: "data"}}
		n.wants(refused)
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodFailed)
		expectRunning(n, "a")
	})
}

// What a pod came to in one life says nothing about the next, whichever way it went.
func TestWhateverEndedALifeTheNextOneRuns(t *testing.T) {
	refused := webPod("a")
	refused.Spec.Volumes = []v1.Volume{{Name: "data"}}
	late := webPod("a")
	late.Spec.ActiveDeadlineSeconds = new(int64(60))
	never := webPod("a")
	never.Spec.RestartPolicy = v1.RestartPolicyNever
	for name, c := range map[string]struct {
		pod *v1.Pod
		end func(n *node)
	}{
		"it succeeded":    {never, func(n *node) { must(n.t, n.runtime.Exit("a", "app", 0)) }},
		"it failed":       {never, func(n *node) { must(n.t, n.runtime.Exit("a", "app", 1)) }},
		"its time was up": {late, func(n *node) { time.Sleep(2 * time.Minute) }},
		"it was rejected": {refused, func(*node) {}},
		"it was preempted": {webPod("a"), func(n *node) {
			n.pool.End("a", nil, pod.Cause{Description: "a critical pod needs its room", Reason: pod.ReasonPreempting, Message: "gone"})
		}},
		"its image was never there": {func() *v1.Pod {
			p := webPod("a")
			p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "localhost/none:1", v1.PullNever
			return p
		}(), func(*node) {}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := startNode(t, fake.New(testImage), t.TempDir())
				defer n.stop()
				n.wants(c.pod)
				c.end(n)
				synctest.Wait()
				if n.pod("a").Status.Phase == v1.PodRunning {
					t.Fatal("the first life has not ended")
				}
				n.wants()
				began := time.Now()
				n.wants(webPod("a"))
				n.expectPhase("a", v1.PodRunning)
				s := n.pod("a").Status
				if s.Reason != "" || s.Message != "" || n.app("a").RestartCount != 0 || s.StartTime.Time.Before(began.Truncate(time.Second)) {
					t.Errorf("got %+v", s)
				}
				fall, ok := n.watcher.Waterfall("a")
				if !ok || !fall.Done || fall.Seen.Before(began.Truncate(time.Second)) {
					t.Errorf("its start is reported as %+v", fall)
				}
			})
		})
	}
}
