package objects

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func service(namespace, name string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"much": "text"}},
		Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 80}}, Selector: map[string]string{"a": "b"}},
	}
}

func class(name, handler string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
}

func TestServicesOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(service("default", "kubernetes"))
		s.put(service("default", "db"))
		s.put(service("shop", "web"))
		s.put(service("shop", "api"))
		s.fail(errDown)
		n := startNode(t, s)

		// Before the services were read, a read is an error, and not an empty list.
		if _, err := n.Services(t.Context(), "shop"); err == nil || !strings.Contains(err.Error(), "services of the cluster were not read yet") {
			t.Errorf("have %v", err)
		}
		if isClosed(n.Synced()) {
			t.Error("they are known, and were not read")
		}
		s.fail(nil)
		<-n.Synced()

		want := func(namespace, want string) []*v1.Service {
			t.Helper()
			all, err := n.Services(t.Context(), namespace)
			must(t, err)
			var have []string
			for _, s := range all {
				have = append(have, s.Namespace+"/"+s.Name)
			}
			if strings.Join(have, " ") != want {
				t.Errorf("have %v, want %s", have, want)
			}
			return all
		}
		all := want("shop", "shop/api default/kubernetes shop/web")
		if s := all[0]; s.Spec.ClusterIP != "10.0.0.1" || s.Spec.Ports[0].Port != 80 || s.Labels != nil || s.ManagedFields != nil {
			t.Errorf("kept is %v", s)
		}
		want("default", "default/db default/kubernetes")
		want("empty", "default/kubernetes")

		synctest.Wait()
		s.put(service("shop", "kubernetes"))
		s.put(service("new", "first"))
		s.remove(service("shop", "web"))
		synctest.Wait()
		want("shop", "shop/api shop/kubernetes")
		want("new", "new/first default/kubernetes")
		s.remove(service("new", "first"))
		synctest.Wait()
		want("new", "default/kubernetes")
		if n.news() != "" {
			t.Error("pods were notified of services: their variables are made once")
		}
	})
}

func TestRuntimeClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(class("runc", "runc"))
		n := startNode(t, s)
		p := podWith("p")
		p.Spec.RuntimeClassName = new("gvisor")
		n.Register(p)
		n.Register(podWith("q"))

		have, err := n.RuntimeClass(t.Context(), "runc")
		must(t, err)
		if have.Handler != "runc" || have.ManagedFields != nil {
			t.Errorf("have %v", have)
		}
		if _, err := n.RuntimeClass(t.Context(), "gvisor"); !apierrors.IsNotFound(err) || err.Error() != `runtimeclass "gvisor" not found` {
			t.Errorf("have %v", err)
		}
		synctest.Wait()
		s.put(class("gvisor", "runsc"))
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p" {
			t.Errorf("enqueued were %q", enqueued)
		}
		have, err = n.RuntimeClass(t.Context(), "gvisor")
		must(t, err)
		if have.Handler != "runsc" {
			t.Errorf("have %v", have)
		}

		// What is of no concern to a node, and what is.
		same := class("gvisor", "runsc")
		same.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"a": "b"}}
		s.put(same)
		synctest.Wait()
		if enqueued := n.news(); enqueued != "" {
			t.Errorf("enqueued were %q", enqueued)
		}
		heavy := class("gvisor", "runsc")
		heavy.Overhead = &nodev1.Overhead{PodFixed: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}}
		s.put(heavy)
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p" {
			t.Errorf("enqueued were %q", enqueued)
		}
		s.remove(class("gvisor", "runsc"))
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p" {
			t.Errorf("enqueued were %q", enqueued)
		}
	})
}

func TestARuntimeClassThatChangedWhileTheServerWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.fail(errDown)
		n := startNode(t, s)
		p := podWith("p")
		p.Spec.RuntimeClassName = new("gvisor")
		n.Register(p)
		s.put(class("gvisor", "runsc"))
		if _, err := n.RuntimeClass(t.Context(), "gvisor"); err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "not read yet") {
			t.Errorf("have %v", err)
		}
		// The pod's read failed, so the pod is enqueued.
		s.fail(nil)
		time.Sleep(5 * time.Second)
		if enqueued := n.news(); enqueued != "p" {
			t.Errorf("enqueued were %q", enqueued)
		}
		s.fail(errDown)
		s.cut()
		s.put(class("gvisor", "other"))
		s.put(class("unused", "other"))
		time.Sleep(time.Minute)
		if c, err := n.RuntimeClass(t.Context(), "gvisor"); err != nil || c.Handler != "runsc" {
			t.Errorf("have %v, %v", c, err)
		}
		s.fail(nil)
		time.Sleep(5 * time.Second)
		if c, err := n.RuntimeClass(t.Context(), "gvisor"); err != nil || c.Handler != "other" || n.news() != "p" {
			t.Errorf("have %v, %v", c, err)
		}
	})
}

// A class may be as new as the pod that refers to it.
func TestARuntimeClassThatTheWatchHasYetToShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		n := startNode(t, s)
		synctest.Wait()
		s.mu.Lock()
		s.objects["runtimeclasses//gvisor"] = class("gvisor", "runsc")
		s.mu.Unlock()
		c, err := n.RuntimeClass(t.Context(), "gvisor")
		must(t, err)
		if c.Handler != "runsc" {
			t.Errorf("have %v", c)
		}
	})
}
