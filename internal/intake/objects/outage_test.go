package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAGetterWaitsForAWhileAndSaysForWhat(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1.Resource("configmaps"), "a", errors.New("no relationship found"))
	for name, c := range map[string]struct {
		failure error
		want    string
	}{
		"away":      {errDown, "configmap default/a was not read yet, after 10s: "},
		"forbidden": {forbidden, "no relationship found"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.put(configMapOf("a", "1"))
				s.fail(c.failure)
				n := startNode(t, s)
				n.Register(podWith("p", "a"))
				began := time.Now()
				_, err := n.ConfigMap(t.Context(), "default", "a")
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(began) != getTimeout {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				// The pod's read failed, so the pod is enqueued once the object can be read.
				s.fail(nil)
				time.Sleep(time.Minute)
				if enqueued := n.news(); enqueued != "p" {
					t.Errorf("enqueued were %q", enqueued)
				}
				n.want(t, "a", "1")
			})
		})
	}
	t.Run("not for longer than the caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, newServer(t))
			n.Register(podWith("p", "a"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := n.ConfigMap(ctx, "default", "a")
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "configmap default/a") {
				t.Errorf("have %v", err)
			}
			if _, err := n.ConfigMap(t.Context(), "default", "a"); err == nil || !strings.Contains(err.Error(), "has not answered within 10s") {
				t.Errorf("have %v", err)
			}
			// Nor for an object that no pod refers to any more.
			began := time.Now()
			time.AfterFunc(time.Second, func() { n.Unregister("p") })
			if _, err := n.ConfigMap(t.Context(), "default", "a"); err == nil || time.Since(began) != time.Second {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		})
	})
}

func TestARefusalThatPassesIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(configMapOf("a", "1"))
		s.fail(apierrors.NewForbidden(v1.Resource("configmaps"), "a", errors.New("no relationship found")))
		n := startNode(t, s)
		n.Register(podWith("p", "a"))
		time.AfterFunc(60*time.Millisecond, func() { s.fail(nil) })
		began := time.Now()
		n.want(t, "a", "1")
		if late := time.Since(began); late > 200*time.Millisecond {
			t.Errorf("it took %s", late)
		}
		synctest.Wait()
		if n.news() != "" || n.log.String() != "" {
			t.Errorf("the log: %s", n.log)
		}
	})
}

func TestARefusalThatLastsIsSaidOnceAndTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(configMapOf("a", "1"))
		s.refuseSome(func(request string) error {
			if strings.Contains(request, "configmaps") {
				return apierrors.NewForbidden(v1.Resource("configmaps"), "a", errors.New("no relationship found"))
			}
			return nil
		})
		n := startNode(t, s)
		n.Register(podWith("p", "a"))
		time.Sleep(time.Hour)
		if asked := s.asked("configmaps"); len(asked) > 1200 {
			t.Errorf("asked %d times in an hour", len(asked))
		}
		s.fail(nil)
		time.Sleep(time.Minute)
		n.want(t, "a", "1")
		if said := n.log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "does not let") || !strings.Contains(said, "again") {
			t.Errorf("the log:\n%s", said)
		}
	})
}

func TestAnOutage(t *testing.T) {
	for name, failure := range map[string]error{
		"refused": errDown,
		"429":     apierrors.NewTooManyRequests("slow down", 0),
		"500":     apierrors.NewInternalError(errors.New("no quorum")),
		"503":     apierrors.NewServiceUnavailable("starting"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const count = 20
				s := newServer(t)
				n := startNode(t, s)
				for i := range count {
					s.put(configMapOf(fmt.Sprint("c", i), "1"))
					n.Register(podWith(fmt.Sprint("p", i), fmt.Sprint("c", i)))
				}
				time.Sleep(time.Minute)
				s.asked("")

				s.fail(failure)
				s.cut()
				s.put(configMapOf("c7", "2"))
				time.Sleep(5 * time.Minute)
				n.want(t, "c7", "1")
				// At first all find out that it is gone. From then on, one by one.
				if asked := len(s.asked("")); asked > 3*count+3*5*60 {
					t.Errorf("asked %d times in 5 minutes", asked)
				}
				if enqueued := n.news(); enqueued != "" {
					t.Errorf("enqueued were %q", enqueued)
				}
				s.fail(nil)
				time.Sleep(5 * time.Second)
				n.want(t, "c7", "2")
				if enqueued := n.news(); enqueued != "p7" {
					t.Errorf("enqueued were %q", enqueued)
				}
				if have := len(s.watching()); have != count {
					t.Errorf("%d of %d are watched", have, count)
				}
				if said := n.log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "can't be read") || !strings.Contains(said, "can be read from the API server again") {
					t.Errorf("the log:\n%s", said)
				}
			})
		})
	}
}

func TestABrokenObjectHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(configMapOf("a", "1"))
		s.refuseSome(func(request string) error {
			if strings.Contains(request, "secrets") {
				return apierrors.NewInternalError(errors.New("no key to decrypt it"))
			}
			return nil
		})
		n := startNode(t, s)
		n.Register(podWith("p", "s"))
		time.Sleep(5 * time.Minute)
		began := time.Now()
		n.Register(podWith("q", "a"))
		n.want(t, "a", "1")
		if late := time.Since(began); late > 0 {
			t.Errorf("it took %s", late)
		}
	})
}
