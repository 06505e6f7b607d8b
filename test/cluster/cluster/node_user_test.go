//go:build real

package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

func TestNodeMayOnlyDoWhatItsAgentHasTo(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	ctx := t.Context()
	admin := kit.Client(t, plane, control.Admin()).CoreV1()
	one := kit.Client(t, plane, control.Node("one"))

	// Given two nodes with a pod each, and each pod with a secret.
	kit.Must(t, kit.RegisterNode(ctx, one, "one"))
	kit.Must(t, kit.RegisterNode(ctx, kit.Client(t, plane, control.Node("two")), "two"))
	for _, node := range []string{"one", "two"} {
		_, err := admin.Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-" + node}}, kit.CreateOptions)
		kit.Must(t, err)
		_, err = admin.Pods("default").Create(ctx, kit.BoundPod("on-"+node, node, "of-"+node), kit.CreateOptions)
		kit.Must(t, err)
	}

	api := one.CoreV1()
	podsOf := func(selector string) func() error {
		return func() error {
			_, err := api.Pods("").List(ctx, metav1.ListOptions{FieldSelector: selector})
			return err
		}
	}
	secret := func(name string) func() error {
		return func() error {
			_, err := api.Secrets("default").Get(ctx, name, kit.GetOptions)
			return err
		}
	}
	label := func(node string) func() error {
		return func() error {
			_, err := api.Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}
	}
	status := func(pod string) func() error {
		return func() error {
			_, err := api.Pods("default").Patch(ctx, pod, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		}
	}
	plainPod := func() error {
		_, err := api.Pods("default").Create(ctx, kit.BoundPod("more", "one", ""), kit.CreateOptions)
		return err
	}

	for _, c := range []struct {
		what    string
		allowed bool
		try     func() error
	}{
		{"list its own pods", true, podsOf("spec.nodeName=one")},
		{"list the pods of another node", false, podsOf("spec.nodeName=two")},
		{"list all pods", false, podsOf("")},
		{"read a secret of its own pod", true, secret("of-one")},
		{"read a secret of another node's pod", false, secret("of-two")},
		{"label itself", true, label("one")},
		{"label another node", false, label("two")},
		{"write the status of its own pod", true, status("on-one")},
		{"write the status of another node's pod", false, status("on-two")},
		{"make a pod that is no mirror", false, plainPod},
	} {
		try := c.try
		if c.allowed {
			// The API server takes a moment to notice which pod reads which secret.
			try = func() error { return kit.Retry(ctx, 5*time.Second, c.try) }
		}
		err := try()
		switch {
		case c.allowed && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case !c.allowed && !apierrors.IsForbidden(err):
			t.Errorf("%s: want it forbidden, got: %v", c.what, err)
		}
	}
}
