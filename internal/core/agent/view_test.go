package agent

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/status"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
)

// shownNode is a view with the sets that it reads.
type shownNode struct {
	*view
	wanted   *desired.Set
	statuses *status.Store
}

func newShownNode(pods int) *shownNode {
	n := &shownNode{wanted: desired.New(), statuses: status.NewStore()}
	n.view = newView(n.wanted, n.statuses)
	n.setListed()
	for i := range pods {
		n.upsert(fmt.Sprintf("p%d", i))
	}
	return n
}

func (n *shownNode) upsert(name string) {
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = "default", name, pod.UID(name)
	n.wanted.Upsert(p)
	n.update(p.UID)
}

func (n *shownNode) remove(name string) {
	n.wanted.Remove(pod.UID(name))
	n.update(pod.UID(name))
}

func names(c pod.Changes) (changed, gone []string) {
	for _, p := range c.Pods {
		changed = append(changed, p.Name)
	}
	for _, uid := range c.Gone {
		gone = append(gone, string(uid))
	}
	return changed, gone
}

func expectChanges(t *testing.T, c pod.Changes, all bool, changed, gone []string) {
	t.Helper()
	gotChanged, gotGone := names(c)
	if c.All != all || !slices.Equal(gotChanged, changed) || !slices.Equal(gotGone, gone) {
		t.Errorf("got all %t, changed %v, gone %v; want %t, %v, %v", c.All, gotChanged, gotGone, all, changed, gone)
	}
}

func TestAReaderGetsTheChangesSinceItsVersion(t *testing.T) {
	n := newShownNode(3)
	first := n.since(0)
	expectChanges(t, first, true, []string{"p0", "p1", "p2"}, nil)
	expectChanges(t, n.since(first.Version), false, nil, nil)

	n.statuses.Set("p1", v1.PodStatus{Phase: v1.PodRunning})
	n.remove("p0")
	n.upsert("p3")
	second := n.since(first.Version)
	expectChanges(t, second, false, []string{"p1", "p3"}, []string{"p0"})
	if second.Pods[0].Status.Phase != v1.PodRunning {
		t.Errorf("it shows %s", second.Pods[0].Status.Phase)
	}
	expectChanges(t, n.since(second.Version), false, nil, nil)
	// another reader, which starts later or reads slowly, gets the same changes
	expectChanges(t, n.since(first.Version), false, []string{"p1", "p3"}, []string{"p0"})
	// one that went and came back did not go
	n.upsert("p0")
	expectChanges(t, n.since(first.Version), false, []string{"p0", "p1", "p3"}, nil)
}

func TestAllReadersShareAPodUntilItChanges(t *testing.T) {
	n := newShownNode(2)
	before, again := n.since(0).Pods, n.since(0).Pods
	n.statuses.Set("p0", v1.PodStatus{Phase: v1.PodRunning})
	n.update("p1") // nothing about it is new
	after := n.since(0).Pods
	if before[0] != again[0] || before[1] != again[1] || before[1] != after[1] {
		t.Error("a pod that is as it was is made anew")
	}
	if before[0] == after[0] || before[0].Status.Phase != v1.PodPending || after[0].Status.Phase != v1.PodRunning {
		t.Error("a pod that was handed out was written to, or does not change")
	}
}

func TestAPodIsNotKnownUntilTheRuntimeWasListed(t *testing.T) {
	n := newShownNode(0)
	n.listed = false
	n.upsert("p0")
	before := n.since(0)
	n.setListed()
	after := n.since(before.Version)
	expectChanges(t, after, false, []string{"p0"}, nil)
	if before.Pods[0].Status.Phase != v1.PodUnknown || after.Pods[0].Status.Phase != v1.PodPending {
		t.Errorf("it was %s before the list and %s after it", before.Pods[0].Status.Phase, after.Pods[0].Status.Phase)
	}
}

func TestAReaderWithAnOldVersionGetsAllPods(t *testing.T) {
	n := newShownNode(1)
	old := n.since(0)
	for i := range maxGone + 1 {
		n.upsert(fmt.Sprint("short", i))
		n.remove(fmt.Sprint("short", i))
	}
	expectChanges(t, n.since(old.Version), true, []string{"p0"}, nil)
	if len(n.gone) > maxGone || len(n.pods) != 1 || n.byVersion.Len() != 1 {
		t.Errorf("%d that are gone and %d others are remembered", len(n.gone), len(n.pods))
	}
}

func TestRefusalsAreReportedWhenTheyChange(t *testing.T) {
	n := newShownNode(0)
	n.setRefused([]pod.Refusal{{Message: "no name"}})
	first := n.since(0)
	if !first.NewRefusals || len(first.Refused) != 1 {
		t.Errorf("got %+v", first)
	}
	n.setRefused([]pod.Refusal{{Message: "no name"}})
	if c := n.since(first.Version); c.NewRefusals {
		t.Errorf("got %+v", c)
	}
	n.setRefused(nil)
	if c := n.since(first.Version); !c.NewRefusals || len(c.Refused) != 0 {
		t.Errorf("got %+v", c)
	}
}
