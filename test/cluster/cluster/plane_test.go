//go:build real

package cluster

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// kubernetesVersion is the version that go.mod pins, and that the programs have to report.
const kubernetesVersion = "v1.36.3"

func TestWholeControlPlaneSchedulesPods(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	admin := kit.Client(t, plane, control.Admin())

	// Given a node that registered itself.
	kit.Must(t, kit.RegisterNode(t.Context(), kit.Client(t, plane, control.Node("one")), "one"))

	// When a deployment is made.
	kit.MakeNamespace(t, admin, "shop")
	_, err := admin.AppsV1().Deployments("shop").Create(t.Context(), kit.Deployment("web", 2), kit.CreateOptions)
	kit.Must(t, err)

	// Then its pods come to that node.
	awaitBoundPods(t, admin, "shop", "one", 2)
}

// awaitBoundPods returns once a node was given that many pods of a namespace.
func awaitBoundPods(t *testing.T, client kubernetes.Interface, namespace, node string, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	changes, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	kit.Must(t, err)
	defer changes.Stop()
	bound := map[types.UID]bool{}
	for change := range changes.ResultChan() {
		if pod, ok := change.Object.(*corev1.Pod); ok && change.Type == watch.Added {
			bound[pod.UID] = true
		}
		if len(bound) == count {
			return
		}
	}
	t.Fatalf("node %s was given %d pods, not %d", node, len(bound), count)
}

func TestKubectlAndServerHaveTheirVersion(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)

	out, err := plane.Kubectl(t.Context(), "version", "-o", "json")
	kit.Must(t, err)

	type version struct{ Major, Minor, GitVersion string }
	var got struct{ ClientVersion, ServerVersion version }
	kit.Must(t, json.Unmarshal([]byte(out), &got))
	want := version{Major: "1", Minor: "36", GitVersion: kubernetesVersion}
	if got.ClientVersion != want || got.ServerVersion != want {
		t.Errorf("got %+v, want %+v of both", got, want)
	}
}

func TestDataOutlivesThePartsThatKeepIt(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	kit.MakeNamespace(t, admin, "shop")
	made, err := admin.CoreV1().Pods("shop").Create(t.Context(), kit.BoundPod("web", "one", ""), kit.CreateOptions)
	kit.Must(t, err)

	mustHavePod := func() {
		t.Helper()
		got, err := admin.CoreV1().Pods("shop").Get(t.Context(), "web", kit.GetOptions)
		kit.Must(t, err)
		if got.UID != made.UID {
			t.Errorf("the pod has UID %s, and was made with %s", got.UID, made.UID)
		}
	}

	// Stopped, the API server does not answer; started again, it has everything.
	kit.Must(t, plane.Stop(control.APIServer))
	if _, err := admin.CoreV1().Pods("shop").Get(t.Context(), "web", kit.GetOptions); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Fatalf("the API server is stopped, and a request ends with: %v", err)
	}
	kit.Must(t, plane.Start(t.Context(), control.APIServer))
	mustHavePod()

	// Killed, both come back with everything, too.
	plane.Kill(control.APIServer)
	plane.Kill(control.Etcd)
	kit.Must(t, plane.Start(t.Context(), control.Etcd))
	kit.Must(t, plane.Start(t.Context(), control.APIServer))
	mustHavePod()

	// Paused, it answers too late; resumed, as ever.
	kit.Must(t, plane.Pause(control.APIServer))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := admin.CoreV1().Pods("shop").Get(ctx, "web", kit.GetOptions); err == nil {
		t.Error("the API server is paused, and answers")
	}
	kit.Must(t, plane.Resume(control.APIServer))
	mustHavePod()
}

func TestWipedEtcdComesBackEmpty(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	kit.MakeNamespace(t, admin, "shop")

	kit.Must(t, plane.WipeEtcd(t.Context()))

	if _, err := admin.CoreV1().Namespaces().Get(t.Context(), "shop", kit.GetOptions); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace of before is asked for, and the answer is: %v", err)
	}
	kit.MakeNamespace(t, admin, "shop")
}
