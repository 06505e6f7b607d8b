package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestANewNodeIsRegisteredAndBecomesReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ready atomic.Int32
		b := start(t, newCluster(t), func(c *Config) { c.Ready = func() { ready.Add(1) } })
		b.expect("at start", "get nodes", "create nodes", "get leases", "create leases")
		if !isKnown(b.Reporter) || b.Node().UID != "uid-1" || b.ready() != v1.ConditionFalse {
			t.Fatalf("known: %v, node: %v", isKnown(b.Reporter), b.Node())
		}
		if owner := b.lease().OwnerReferences[0]; owner.UID != "uid-1" {
			t.Errorf("the lease has owner %v", owner)
		}

		b.SetRuntime(nil)
		b.SetNetwork(nil)
		after(time.Second)
		b.expect("a second later", "patch nodes/status")
		if b.ready() != v1.ConditionTrue || b.shown().Status.NodeInfo.ContainerRuntimeVersion != "containerd://2.4.2" {
			t.Errorf("status %+v", b.shown().Status)
		}
		if ready.Load() != 1 {
			t.Errorf("it was reported %d times that the node is ready", ready.Load())
		}
		want := []string{"Normal Starting", "Normal NodeHasSufficientMemory", "Normal NodeHasNoDiskPressure", "Normal NodeHasSufficientPID", "Normal NodeReady"}
		if got := b.events.take(); !slices.Equal(got, want) {
			t.Errorf("events %q", got)
		}
	})
}

func TestLeaseAndStatusKeepTheirIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		before := *b.lease().Spec.RenewTime
		beat := find(b.shown().Status.Conditions, v1.NodeReady).LastHeartbeatTime
		after(4 * time.Minute)
		if got := b.take(); len(got) != 24 || slices.ContainsFunc(got, func(s string) bool { return s != "update leases" }) {
			t.Fatalf("in 4 idle minutes: %q", got)
		}
		if renewed := b.lease().Spec.RenewTime; renewed.Sub(before.Time) != 4*time.Minute {
			t.Errorf("renewed at %v, after %v", renewed, before)
		}
		after(time.Minute)
		if got := b.take(); len(got) != 7 || !slices.Contains(got, "patch nodes/status") {
			t.Errorf("in the fifth: %q", got)
		}
		if now := find(b.shown().Status.Conditions, v1.NodeReady).LastHeartbeatTime; now.Sub(beat.Time) != 5*time.Minute {
			t.Errorf("heartbeats at %v and %v", beat, now)
		}
		if events := b.events.take(); len(events) != 0 {
			t.Errorf("events %q", events)
		}
	})
}

func TestARuntimeThatIsWellIsNotAskedForAllEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		b := startReadyWith(t, newCluster(t), func(c *Config) {
			look := c.Runtime
			c.Runtime = func(ctx context.Context) (Runtime, error) { looks.Add(1); return look(ctx) }
		})
		looks.Store(0)
		for range 24 { // two minutes of good news
			b.SetRuntime(nil)
			after(5 * time.Second)
		}
		if n := looks.Load(); n != 2 {
			t.Errorf("it was looked at %d times in two minutes", n)
		}
		b.SetRuntime(errors.New("gone"))
		b.SetRuntime(nil)
		after(time.Second)
		if n := looks.Load(); n != 3 {
			t.Errorf("after it came back, it was looked at %d times", n-2)
		}
	})
}

func TestAnImageMoreIsShownWithinTheUsualInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		after(58 * time.Second) // the machine is looked at once a minute
		b.mu.Lock()
		b.facts.Runtime.Images = []v1.ContainerImage{{Names: []string{"localhost/a:1"}, SizeBytes: 1}}
		b.mu.Unlock()
		b.take()
		after(3 * time.Second)
		if got := b.take(); !slices.Contains(got, "patch nodes/status") || len(b.shown().Status.Images) != 1 {
			t.Fatalf("calls %q, images %v", got, b.shown().Status.Images)
		}
	})
}

func TestReadyFollowsRuntimeAndNetworkWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		after(30 * time.Second)
		b.SetRuntime(errors.New("gone"))
		b.SetRuntime(errors.New("gone")) // no news
		synctest.Wait()
		if b.ready() != v1.ConditionFalse {
			t.Fatal("the node is ready without a runtime")
		}
		b.SetRuntime(nil)
		after(time.Second)
		if b.ready() != v1.ConditionTrue {
			t.Fatal("the node is not ready a second after its runtime")
		}
		after(30 * time.Second)
		b.SetPressure(Pressure{Memory: true})
		b.SetShutdown(errors.New("power"))
		synctest.Wait()
		// Two goroutines record them, in any order.
		got, want := b.events.take(), []string{"Normal NodeNotReady", "Normal NodeReady", "Normal Shutdown", "Normal NodeHasInsufficientMemory", "Normal NodeNotReady"}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("events %q", got)
		}
		after(30 * time.Second)
		b.SetPressure(Pressure{})
		b.SetShutdown(nil)
		synctest.Wait()
		got, want = b.events.take(), []string{"Normal Shutdown", "Normal NodeHasSufficientMemory", "Normal NodeReady"}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("events %q", got)
		}
	})
}

func TestWhatComesAndGoesIsShownWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		for _, err := range []error{errors.New("gone"), nil, errors.New("gone again"), nil} {
			b.SetNetwork(err)
			after(900 * time.Millisecond)
			if ready := b.ready() == v1.ConditionTrue; ready != (err == nil) {
				t.Errorf("with %v, ready is %v", err, ready)
			}
		}
	})
}

func TestAFlappingRuntimeIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		for i := range 600 {
			var err error
			if i%2 == 0 {
				err = errors.New("gone")
			}
			b.SetRuntime(err)
			after(100 * time.Millisecond)
		}
		patches := 0
		for _, call := range b.take() {
			if call == "patch nodes/status" {
				patches++
			}
		}
		if patches > 12 {
			t.Errorf("%d patches in a minute", patches)
		}
		after(10 * time.Second)
		if b.ready() != v1.ConditionTrue {
			t.Error("in the end it is not ready")
		}
	})
}

func TestARestartIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a node that is ready, and labelled by others.
		n := Build(someFacts(), Settings{Name: "box", Version: "old"}, Health{}, time.Now().Add(-time.Hour))
		n.UID = "uid-0"
		n.Labels["team"] = "x"
		n.Labels[v1.LabelHostname] = "wrong"
		n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		since := find(n.Status.Conditions, v1.NodeReady).LastTransitionTime
		b := start(t, newCluster(t, n), nil)
		b.expect("at start", "get nodes", "patch nodes", "get leases", "create leases")

		// When the runtime takes its time.
		after(5 * time.Second)
		b.expect("while nothing is known")
		b.SetRuntime(nil)
		b.SetNetwork(nil)
		synctest.Wait()

		// Then the Node is never shown as not ready.
		b.expect("at the first word", "patch nodes/status")
		got := b.shown()
		if c := find(got.Status.Conditions, v1.NodeReady); c.Status != v1.ConditionTrue || !c.LastTransitionTime.Equal(&since) {
			t.Errorf("ready: %v", c)
		}
		if got.Labels["team"] != "x" || got.Labels[v1.LabelHostname] != "box" || got.Labels["shelf"] != "" || len(got.Spec.Taints) != 1 {
			t.Errorf("labels %v, taints %v", got.Labels, got.Spec.Taints)
		}
		if got.Status.NodeInfo.KubeletVersion != "v1.36.3+berth-test" {
			t.Errorf("version %s", got.Status.NodeInfo.KubeletVersion)
		}
		if events := b.events.take(); !slices.Equal(events, []string{"Normal Starting"}) {
			t.Errorf("events %q", events)
		}
	})
}

func TestARuntimeThatNeverAnswersMakesARestartedNodeNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Build(someFacts(), Settings{Name: "box"}, Health{}, time.Now())
		b := start(t, newCluster(t, n), nil)
		after(firstStatusTimeout)
		if b.ready() != v1.ConditionFalse {
			t.Error("the node is ready")
		}
	})
}

func TestARebootIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Build(someFacts(), Settings{Name: "box"}, Health{}, time.Now())
		n.Status.NodeInfo.BootID = "another"
		b := start(t, newCluster(t, n), nil)
		if events := b.events.take(); !slices.Equal(events, []string{"Normal Starting", "Warning Rebooted"}) {
			t.Errorf("events %q", events)
		}
	})
}

func TestWhatOthersChangeIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		after(time.Minute)
		b.take()
		// A device is announced, and the node cordoned.
		b.observeNode(b.put(func(n *v1.Node) {
			n.ResourceVersion = "2000"
			n.Status.Capacity["example.com/dongle"] = n.Status.Capacity[v1.ResourceCPU]
			n.Spec.Unschedulable = true
		}))
		after(time.Second)
		b.expect("when it is seen", "patch nodes/status")
		if q, ok := b.shown().Status.Allocatable["example.com/dongle"]; !ok || q.Value() != 4 {
			t.Errorf("allocatable %v", b.shown().Status.Allocatable)
		}
		if events := b.events.take(); !slices.Equal(events, []string{"Normal NodeNotSchedulable"}) {
			t.Errorf("events %q", events)
		}
		old := b.shown().DeepCopy()
		old.ResourceVersion, old.Status = "1", v1.NodeStatus{}
		b.observeNode(old)
		after(time.Second)
		b.expect("when an old one is seen")
	})
}

func TestANodeThatIsNotToRegisterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newCluster(t), func(c *Config) { c.DontRegister = true })
		after(time.Minute)
		if isKnown(b.Reporter) || b.tracked() != nil {
			t.Fatal("it was registered")
		}
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "given"}}
		if err := b.client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
		after(5 * time.Second)
		if !isKnown(b.Reporter) || b.shown().Labels[v1.LabelHostname] != "box" {
			t.Error("it was not taken over")
		}
	})
}

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	good := func() Config {
		return Config{
			Settings: Settings{Name: "box"}, Client: fake.NewSimpleClientset(), Events: &lineRecorder{}, Log: slog.New(slog.DiscardHandler),
			Machine:   func() (Machine, error) { return Machine{}, nil },
			Addresses: func() ([]string, error) { return nil, nil },
			Runtime:   func(context.Context) (Runtime, error) { return Runtime{}, nil },
		}
	}
	if _, err := New(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Config){
		"are needed":        func(c *Config) { c.Client = nil },
		`node name "a b"`:   func(c *Config) { c.Settings.Name = "a b" },
		`node label "a b"`:  func(c *Config) { c.Settings.Labels = map[string]string{"a b": ""} },
		"node label shelf":  func(c *Config) { c.Settings.Labels = map[string]string{"shelf": "a b"} },
		`node taint ""`:     func(c *Config) { c.Settings.Taints = []v1.Taint{{}} },
		`effect "Sometime"`: func(c *Config) { c.Settings.Taints = []v1.Taint{{Key: "k", Effect: "Sometime"}} },
		"can't be negative": func(c *Config) { c.Settings.MaxPods = -1 },
		"can't be kept":     func(c *Config) { c.Report = time.Second },
	} {
		c := good()
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
	}
}
