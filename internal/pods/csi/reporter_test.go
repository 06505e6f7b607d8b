package csi

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestDriversAreReportedToTheCluster(t *testing.T) {
	// given a Node, and a CSINode of an earlier agent with a driver that may come back
	w := newWorld(t)
	w.driver.info.MaxVolumesPerNode = 5
	w.register()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "n-1", Annotations: map[string]string{nodeIDAnnotation: `{"old.example.com":"x"}`}}}
	client := fake.NewClientset(node, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "box"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "old.example.com", NodeID: "x"}}},
	})
	var known atomic.Pointer[v1.Node]
	r, err := NewReporter(ReporterConfig{Manager: w.m, Client: client, Node: known.Load, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.report(t.Context()); err == nil {
		t.Error("reported without a node")
	}
	known.Store(node)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	defer func() { cancel(); <-done }()
	drivers := func() []storagev1.CSINodeDriver {
		o, err := client.StorageV1().CSINodes().Get(t.Context(), "box", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o.Spec.Drivers
	}
	annotation := func() string {
		o, err := client.CoreV1().Nodes().Get(t.Context(), "box", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		known.Store(o)
		return o.Annotations[nodeIDAnnotation]
	}

	// then it shows both, and the one that goes no more
	waitFor(t, func() bool { return len(drivers()) == 2 })
	if d := drivers()[0]; d.Name != disks || d.NodeID != "box-id" || *d.Allocatable.Count != 5 {
		t.Error(d)
	}
	if got := annotation(); got != `{"disks.example.com":"box-id","old.example.com":"x"}` {
		t.Error(got)
	}
	w.m.Unregister(disks)
	waitFor(t, func() bool { return len(drivers()) == 1 })
	if got := annotation(); got != `{"old.example.com":"x"}` {
		t.Error(got)
	}
}

func TestADriverWithAnotherNameForTheNode(t *testing.T) {
	// given a server that lets no entry of a driver be changed, as servers do
	w := newWorld(t)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "n-1"}}
	client := fake.NewClientset(node, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "box"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: disks, NodeID: "an earlier name"}, {Name: "other.example.com", NodeID: "x"},
		}},
	})
	drivers := func() []storagev1.CSINodeDriver {
		o, err := client.Tracker().Get(storagev1.SchemeGroupVersion.WithResource("csinodes"), "", "box")
		if err != nil {
			t.Fatal(err)
		}
		return o.(*storagev1.CSINode).Spec.Drivers //nolint:errcheck // it panics, and so fails
	}
	client.PrependReactor("update", "csinodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		next := a.(clienttesting.UpdateAction).GetObject().(*storagev1.CSINode) //nolint:errcheck // it panics, and so fails
		for _, was := range drivers() {
			for _, is := range next.Spec.Drivers {
				if was.Name == is.Name && was.NodeID != is.NodeID {
					return true, nil, apierrors.NewInvalid(storagev1.SchemeGroupVersion.WithKind("CSINode").GroupKind(), "box", nil)
				}
			}
		}
		return false, nil, nil
	})
	r, err := NewReporter(ReporterConfig{Manager: w.m, Client: client, Node: func() *v1.Node { return node }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	// when the driver knows this node by another name now
	if err := r.report(t.Context()); err != nil {
		t.Fatal(err)
	}
	// then it is shown, and the other as before
	if got := drivers(); len(got) != 2 || got[0].NodeID != "box-id" || got[1].NodeID != "x" {
		t.Error(got)
	}
}

func TestTheClusterKnowsWhichPluginsAreMigrated(t *testing.T) {
	const want = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder," +
		"kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "n-1"}}
	current := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "box", Annotations: map[string]string{"other": "stays"}}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: disks, NodeID: "box-id"}},
	}}
	for name, client := range map[string]*fake.Clientset{
		"a node without a CSINode":                fake.NewClientset(node),
		"a CSINode from before, with its drivers": fake.NewClientset(node, &current),
	} {
		w := newWorld(t)
		r, err := NewReporter(ReporterConfig{Manager: w.m, Client: client, Node: func() *v1.Node { return node }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := r.report(t.Context()); err != nil {
				t.Fatal(name, err)
			}
		}
		got, err := client.StorageV1().CSINodes().Get(t.Context(), "box", metav1.GetOptions{})
		if err != nil || got.Annotations[v1.MigratedPluginsAnnotationKey] != want {
			t.Errorf("%s: %v, %v", name, got.Annotations, err)
		}
		writes := 0
		for _, a := range client.Actions() {
			if a.GetResource().Resource == "csinodes" && a.GetVerb() != "get" {
				writes++
			}
		}
		if writes != 1 {
			t.Errorf("%s: it was written %d times", name, writes)
		}
	}
}

func TestANewNodeGetsItsCSINode(t *testing.T) {
	w := newWorld(t)
	w.driver.info.AccessibleTopology = nil
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "n-1"}}
	client := fake.NewClientset(node)
	r, err := NewReporter(ReporterConfig{Manager: w.m, Client: client, Node: func() *v1.Node { return node }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.report(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	o, err := client.StorageV1().CSINodes().Get(t.Context(), "box", metav1.GetOptions{})
	if err != nil || len(o.OwnerReferences) != 1 || o.OwnerReferences[0].UID != "n-1" || len(o.Spec.Drivers) != 1 || o.Spec.Drivers[0].Allocatable != nil {
		t.Error(o, err)
	}
}

func TestWhereANodeIsBecomesItsLabels(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a.example.com/zone": "1", "other": "x"}, Annotations: map[string]string{nodeIDAnnotation: "not json"}}}
	drivers := []Driver{{Name: "a.example.com", NodeID: "n", Topology: map[string]string{"a.example.com/zone": "1", "a.example.com/rack": "2"}}}
	patch, err := nodePatch(node, drivers, nil)
	want := `{"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"a.example.com\":\"n\"}"},"labels":{"a.example.com/rack":"2"}}}`
	if err != nil || string(patch) != want {
		t.Errorf("%s, %v", patch, err)
	}
	node.Annotations[nodeIDAnnotation] = `{"a.example.com":"n"}`
	node.Labels["a.example.com/rack"] = "2"
	if patch, err := nodePatch(node, drivers, nil); patch != nil || err != nil {
		t.Errorf("%s, %v", patch, err)
	}
	patch, err = nodePatch(node, nil, []string{"a.example.com"})
	if want := `{"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":null}}}`; err != nil || string(patch) != want {
		t.Errorf("%s, %v", patch, err)
	}
}
