package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// cluster is an API server for one node: client-go's fake, with UIDs, and with
// faults.
type cluster struct {
	t      *testing.T
	client *fake.Clientset

	mu    sync.Mutex
	calls []call
	fault error // what every call is answered with
	made  int   // nodes

	watches []watch.Interface // that were opened
	silent  bool              // watches show nothing
}

type call struct {
	what string // verb and resource
	at   time.Time
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	c := &cluster{t: t, client: fake.NewSimpleClientset(objects...)}
	c.client.PrependReactor("*", "*", c.note)
	c.client.PrependReactor("create", "nodes", c.create)
	c.client.PrependReactor("patch", "nodes", c.patch)
	c.client.PrependReactor("update", "leases", c.update)
	c.client.PrependReactor("*", "*", c.fail)
	c.client.PrependWatchReactor("nodes", c.watch)
	return c
}

func as[T any](t *testing.T, value any) T {
	t.Helper()
	out, ok := value.(T)
	if !ok {
		t.Errorf("a %T comes unexpected", value)
	}
	return out
}

func (c *cluster) note(a clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := a.GetVerb() + " " + a.GetResource().Resource
	if a.GetSubresource() != "" {
		what += "/" + a.GetSubresource()
	}
	c.calls = append(c.calls, call{what, time.Now()})
	return false, nil, nil
}

func (c *cluster) fail(clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault != nil, nil, c.fault
}

func (c *cluster) fails(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = err
}

// create gives a new node its UID.
func (c *cluster) create(a clienttesting.Action) (bool, runtime.Object, error) {
	_, _, _ = c.note(a)
	n := as[*v1.Node](c.t, as[clienttesting.CreateAction](c.t, a).GetObject()).DeepCopy()
	c.mu.Lock()
	c.made++
	n.UID = types.UID(fmt.Sprintf("uid-%d", c.made))
	c.mu.Unlock()
	return true, n, c.client.Tracker().Add(n)
}

// patch refuses a patch with the UID of an earlier Node.
func (c *cluster) patch(a clienttesting.Action) (bool, runtime.Object, error) {
	p := as[clienttesting.PatchAction](c.t, a)
	var body v1.Node
	if err := json.Unmarshal(p.GetPatch(), &body); err != nil && !strings.Contains(err.Error(), "$patch") {
		return true, nil, err
	}
	if n := c.tracked(); n != nil && n.UID != body.UID {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, p.GetName(), errors.New("the UID is another"))
	}
	return false, nil, nil
}

// update calls it a conflict if the lease is not there, as servers do.
func (c *cluster) update(a clienttesting.Action) (bool, runtime.Object, error) {
	_, err := c.client.Tracker().Get(a.GetResource(), a.GetNamespace(), "box")
	if err != nil {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), "box", err)
	}
	return false, nil, nil
}

func (c *cluster) watch(a clienttesting.Action) (bool, watch.Interface, error) {
	_, _, _ = c.note(a)
	restrictions := as[clienttesting.WatchAction](c.t, a).GetWatchRestrictions()
	if got := restrictions.Fields.String(); got != "metadata.name=box" {
		c.t.Errorf("watched %q", got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil {
		return true, nil, c.fault
	}
	var w watch.Interface = watch.NewRaceFreeFake()
	if !c.silent {
		var err error
		if w, err = c.client.Tracker().Watch(a.GetResource(), ""); err != nil {
			c.t.Error(err)
		}
	}
	c.watches = append(c.watches, w)
	return true, w, nil
}

// breakOff ends the watches that are open, as servers do.
func (c *cluster) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.watches {
		w.Stop()
	}
	c.watches = nil
}

func (c *cluster) tracked() *v1.Node {
	o, err := c.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("nodes"), "", "box")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Error(err)
		return nil
	}
	return as[*v1.Node](c.t, o)
}

func (c *cluster) shown() *v1.Node {
	c.t.Helper()
	n := c.tracked()
	if n == nil {
		c.t.Fatal("there is no node")
	}
	return n
}

func (c *cluster) lease() *coordination.Lease {
	c.t.Helper()
	o, err := c.client.Tracker().Get(coordination.SchemeGroupVersion.WithResource("leases"), "kube-node-lease", "box")
	if err != nil {
		c.t.Fatal(err)
	}
	return as[*coordination.Lease](c.t, o)
}

// put changes the Node as another program does.
func (c *cluster) put(change func(*v1.Node)) *v1.Node {
	c.t.Helper()
	n := c.shown().DeepCopy()
	change(n)
	if err := c.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *cluster) remove(resource schema.GroupVersionResource, namespace string) {
	c.t.Helper()
	if err := c.client.Tracker().Delete(resource, namespace, "box"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) removeNode() { c.remove(v1.SchemeGroupVersion.WithResource("nodes"), "") }

func (c *cluster) removeLease() {
	c.remove(coordination.SchemeGroupVersion.WithResource("leases"), "kube-node-lease")
}

// take returns the calls since the last take.
func (c *cluster) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, call := range c.calls {
		out = append(out, call.what)
	}
	c.calls = nil
	return out
}

func (c *cluster) expect(when string, want ...string) {
	c.t.Helper()
	if got := c.take(); !slices.Equal(got, want) {
		c.t.Fatalf("%s: calls %q, want %q", when, got, want)
	}
}

func (c *cluster) ready() v1.ConditionStatus {
	c.t.Helper()
	return find(c.shown().Status.Conditions, v1.NodeReady).Status
}
