//go:build real

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machine "berth/internal/cluster/node"
	"berth/internal/telemetry/event"
	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

func TestEventsArriveAndAreCountedUp(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	ctx := t.Context()
	admin := kit.Client(t, plane, control.Admin())
	m := joinMember(t, plane)

	// Given a pod of the node, a static pod with its mirror, and a namespace that goes.
	web, err := admin.CoreV1().Pods("default").Create(ctx, kit.BoundPod("web", "one", ""), kit.CreateOptions)
	kit.Must(t, err)
	static := kit.BoundPod("static-one", "one", "")
	static.Namespace, static.UID = "default", "0123456789abcdef"
	mirror := static.DeepCopy()
	mirror.UID = ""
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: string(static.UID)}
	controller := true
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "one", UID: m.Node().UID, Controller: &controller}}
	_, err = m.client.CoreV1().Pods("default").Create(ctx, mirror, kit.CreateOptions)
	kit.Must(t, err)
	kit.MakeNamespace(t, admin, "leaving")
	kit.Must(t, admin.CoreV1().Namespaces().Delete(ctx, "leaving", metav1.DeleteOptions{}))
	leaving := kit.BoundPod("leaving", "one", "")
	leaving.Namespace = "leaving"

	backoffs := func() (*corev1.Event, error) {
		list, err := admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=BackOff,involvedObject.name=web"})
		if err != nil {
			return nil, err
		}
		if len(list.Items) != 1 {
			return nil, fmt.Errorf("%d events", len(list.Items))
		}
		return &list.Items[0], nil
	}
	counted := func(want int32) *corev1.Event {
		t.Helper()
		var e *corev1.Event
		kit.Within(t, 5*time.Second, func() (err error) {
			if e, err = backoffs(); err == nil && e.Count != want {
				err = fmt.Errorf("it was counted %d times, want %d", e.Count, want)
			}
			return err
		})
		return e
	}

	// When something happens again and again, it is one event that is counted up.
	m.recorder.Record(leaving, corev1.EventTypeWarning, event.BackOff, "no sink")
	m.recorder.RecordContainer(static, "app", corev1.EventTypeWarning, event.BackOff, "static waits")
	for n := int32(1); n <= 3; n++ {
		m.recorder.RecordContainer(web, "app", corev1.EventTypeWarning, event.BackOff, "it waits")
		counted(n)
	}

	// When the server forgot it, it is made again, and goes on to be counted.
	kit.Must(t, admin.CoreV1().Events("default").Delete(ctx, counted(3).Name, metav1.DeleteOptions{}))
	m.recorder.RecordContainer(web, "app", corev1.EventTypeWarning, event.BackOff, "it waits")
	counted(4)

	// Then kubectl shows what happened to the pods and to the node.
	m.SetPressure(machine.Pressure{Disk: true})
	for object, want := range map[string][]string{
		"pod/web":        {"BackOff", "x4 over", "kubelet", "it waits"},
		"pod/static-one": {"BackOff", "static waits"},
		"node/one":       {"Starting", "NodeReady", "NodeHasDiskPressure"},
	} {
		kit.Within(t, 5*time.Second, func() error {
			out, err := plane.Kubectl(ctx, "describe", object)
			for _, word := range want {
				if err == nil && !strings.Contains(out, word) {
					err = fmt.Errorf("describe %s has no %q:\n%s", object, word, out)
				}
			}
			return err
		})
	}
	if said := m.log.String(); strings.Contains(said, "level=WARN") {
		t.Errorf("there was trouble:\n%s", said)
	}
}

func TestTheNodeIsWatched(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	ctx := t.Context()
	admin := kit.Client(t, plane, control.Admin())
	m := joinMember(t, plane)
	nodes := admin.CoreV1().Nodes()

	// What the runtime can do is there to be seen.
	kit.Within(t, 5*time.Second, func() error {
		n, err := nodes.Get(ctx, "one", kit.GetOptions)
		if err != nil {
			return err
		}
		s := n.Status
		if len(s.Images) != 1 || len(s.RuntimeHandlers) != 1 || !*s.RuntimeHandlers[0].Features.UserNamespaces || s.Features == nil || !*s.Features.SupplementalGroupsPolicy {
			return fmt.Errorf("images %v, handlers %v, features %v", s.Images, s.RuntimeHandlers, s.Features)
		}
		return isReadyNode(n)
	})

	// When a user labels it, that is known at once.
	select {
	case <-m.changed: // that it was registered
	default:
	}
	_, err := nodes.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"disk":"ssd"}}}`), metav1.PatchOptions{})
	kit.Must(t, err)
	kit.Within(t, 5*time.Second, func() error {
		select {
		case <-m.changed:
		case <-time.After(2 * time.Second):
		}
		if m.Node().Labels["disk"] != "ssd" {
			return fmt.Errorf("labels %v", m.Node().Labels)
		}
		return nil
	})

	// When it is deleted, it is back within 2 s, and its lease belongs to the new one.
	before := m.Node().UID
	began := time.Now()
	kit.Must(t, nodes.Delete(ctx, "one", metav1.DeleteOptions{}))
	uid := awaitUID(t, m)
	if took := time.Since(began); took > 2*time.Second || uid == before {
		t.Errorf("it was back after %s, as %s", took, uid)
	}
	kit.Within(t, 5*time.Second, func() error {
		n, err := nodes.Get(ctx, "one", kit.GetOptions)
		if err != nil {
			return err
		}
		lease, err := admin.CoordinationV1().Leases("kube-node-lease").Get(ctx, "one", kit.GetOptions)
		if err != nil {
			return err
		}
		if n.UID != uid || lease.OwnerReferences[0].UID != uid {
			return fmt.Errorf("node %s, lease of %v", n.UID, lease.OwnerReferences)
		}
		return isReadyNode(n)
	})

	// When the clock was an hour ahead and was set back, the lease is renewed all the same.
	lease, err := admin.CoordinationV1().Leases("kube-node-lease").Get(ctx, "one", kit.GetOptions)
	kit.Must(t, err)
	ahead := metav1.NewMicroTime(time.Now().Add(time.Hour))
	kit.Within(t, 5*time.Second, func() error {
		if lease, err = admin.CoordinationV1().Leases("kube-node-lease").Get(ctx, "one", kit.GetOptions); err != nil {
			return err
		}
		lease.Spec.RenewTime = &ahead
		_, err = admin.CoordinationV1().Leases("kube-node-lease").Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	kit.Within(t, 5*time.Second, func() error {
		lease, err := admin.CoordinationV1().Leases("kube-node-lease").Get(ctx, "one", kit.GetOptions)
		if err == nil && !lease.Spec.RenewTime.After(ahead.Time) {
			err = fmt.Errorf("it was renewed at %s", lease.Spec.RenewTime)
		}
		return err
	})
}

func TestTheNodeComesBackAfterEtcdWasWiped(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	ctx := t.Context()
	admin := kit.Client(t, plane, control.Admin())
	m := joinMember(t, plane)

	// Given a pod of the node, and a store that has got further than a new one will.
	_, err := admin.CoreV1().Pods("default").Create(ctx, kit.BoundPod("before", "one", ""), kit.CreateOptions)
	kit.Must(t, err)
	awaitSnapshot(t, m, "before")
	for n := range 200 {
		_, err := admin.CoreV1().Nodes().Patch(ctx, "one", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n), metav1.PatchOptions{})
		kit.Must(t, err)
	}
	before := m.Node().UID

	// When etcd is wiped. The API server, asked to end, would wait for those who watch.
	plane.Kill(control.APIServer)
	kit.Must(t, plane.WipeEtcd(ctx))
	kit.Must(t, plane.Start(ctx, control.APIServer))
	began := time.Now()

	// Then the node is there again, ready and as another one.
	uid := awaitUID(t, m)
	kit.Within(t, 15*time.Second, func() error {
		n, err := admin.CoreV1().Nodes().Get(ctx, "one", kit.GetOptions)
		if err != nil {
			return err
		}
		if n.UID != uid {
			return fmt.Errorf("the node is %s, not %s", n.UID, uid)
		}
		return isReadyNode(n)
	})
	if took := time.Since(began); took > 15*time.Second || uid == before {
		t.Errorf("it was back after %s, as %s", took, uid)
	}
	t.Logf("the node was back %s after the API server", time.Since(began).Round(time.Millisecond))

	// And pods are those of the new cluster.
	awaitSnapshot(t, m)
	_, err = admin.CoreV1().Pods("default").Create(ctx, kit.BoundPod("after", "one", ""), kit.CreateOptions)
	kit.Must(t, err)
	awaitSnapshot(t, m, "after")

	// And the outage is logged in few lines.
	if n := strings.Count(m.log.String(), "\n"); n > 20 {
		t.Errorf("%d lines in the log", n)
	}
}
