package objects

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTrustBundles(t *testing.T) {
	s := newServer(t)
	for _, name := range []string{"example.com:a", "b"} {
		s.put(&certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{TrustBundle: "PEM of " + name}})
	}
	a := newNode(t, s).API

	got, err := a.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{Name: new("example.com:a")})
	if err != nil || !slices.Equal(got, []string{"PEM of example.com:a"}) {
		t.Error(got, err)
	}
	got, err = a.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{SignerName: new("example.com/s"), LabelSelector: &metav1.LabelSelector{}})
	if err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	if asked := s.asked("clustertrustbundles"); len(asked) != 2 || !strings.HasPrefix(asked[1], "list") || !strings.HasSuffix(asked[1], "spec.signerName=example.com/s") {
		t.Error(asked)
	}
	if got, err := a.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{}); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	if _, err := a.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{Name: new("none")}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := a.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{Name: new("../../secrets")}); err == nil {
		t.Error("a name leads elsewhere")
	}
	// and a server that knows no such thing
	s.refuseSome(func(string) error { return apierrors.NewNotFound(v1.Resource("clustertrustbundles"), "") })
	if _, err := a.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{Name: new("b")}); !errors.Is(err, errNoTrustBundles) {
		t.Error(err)
	}
}

func bundle(name, signer, text string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": "web"}},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	}
}

func podTrusting(uid string) *v1.Pod {
	p := podWith(uid)
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
		Sources: []v1.VolumeProjection{{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}},
	}}})
	return p
}

func TestTrustBundlesAreWatchedWhileAPodHasSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(bundle("a", "", "1"))
		s.put(bundle("b", "example.com/s", "2"))
		n := startNode(t, s)
		n.Register(podWith("other"))
		synctest.Wait()
		if asked := s.asked("clustertrustbundles"); len(asked) > 0 {
			t.Errorf("nobody needs them, and asked was %q", asked)
		}
		want := func(source v1.ClusterTrustBundleProjection, want ...string) {
			t.Helper()
			if got, err := n.TrustBundles(t.Context(), &source); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
		named := v1.ClusterTrustBundleProjection{Name: new("a")}
		signed := v1.ClusterTrustBundleProjection{SignerName: new("example.com/s"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"for": "web"}}}

		// Given two pods that have some.
		n.Register(podTrusting("p"))
		n.Register(podTrusting("q"))
		synctest.Wait()
		s.asked("clustertrustbundles")
		want(named, "1")
		want(signed, "2")
		if asked := s.asked("clustertrustbundles"); len(asked) > 0 || n.news() != "" {
			t.Errorf("what is watched is asked for: %q", asked)
		}

		// When a bundle changes, then the pods are enqueued at once, and not again for the same
		// content.
		s.put(bundle("a", "", "3"))
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p q" {
			t.Errorf("enqueued were %q", enqueued)
		}
		want(named, "3")
		s.put(bundle("a", "", "3"))
		synctest.Wait()
		if enqueued := n.news(); enqueued != "" {
			t.Errorf("enqueued were %q", enqueued)
		}
		other := bundle("b", "example.com/s", "2")
		other.Labels = nil
		s.put(other)
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p q" {
			t.Errorf("enqueued were %q", enqueued)
		}
		want(signed)

		// The last one takes the watch with it.
		n.Unregister("p")
		n.Register(podWith("q")) // a new version, without
		synctest.Wait()
		s.put(bundle("a", "", "4"))
		synctest.Wait()
		if enqueued := n.news(); enqueued != "" {
			t.Errorf("enqueued were %q", enqueued)
		}
		want(named, "4")
	})
}

func TestAServerThatGetsTrustBundles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.put(bundle("a", "", "1"))
		s.refuseSome(func(request string) error {
			if strings.Contains(request, "clustertrustbundles") {
				return apierrors.NewNotFound(v1.Resource("clustertrustbundles"), "")
			}
			return nil
		})
		n := startNode(t, s)
		n.Register(podTrusting("p"))
		began := time.Now()
		if _, err := n.TrustBundles(t.Context(), &v1.ClusterTrustBundleProjection{Name: new("a")}); !errors.Is(err, errNoTrustBundles) || time.Since(began) > 0 {
			t.Error(err, time.Since(began))
		}
		time.Sleep(time.Minute)
		s.fail(nil)
		time.Sleep(refusedPause.Max)
		synctest.Wait()
		if enqueued := n.news(); enqueued != "p" {
			t.Errorf("enqueued were %q", enqueued)
		}
	})
}
