package objects

import (
	"context"
	"maps"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"berth/internal/lib/pod"
)

// trustWatch is the watch of all clustertrustbundles. It runs as long as a registered pod
// has one in a volume. API.mu guards it.
type trustWatch struct {
	pods map[pod.UID]bool
	all  *collection[*certificatesv1beta1.ClusterTrustBundle] // nil: no pod has any
	stop context.CancelFunc                                   // nil: there is no watch
}

// usesTrustBundles reports whether a pod has clustertrustbundles in a volume.
func usesTrustBundles(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		if s := p.Spec.Volumes[i].Projected; s != nil {
			for j := range s.Sources {
				if s.Sources[j].ClusterTrustBundle != nil {
					return true
				}
			}
		}
	}
	return false
}

// updateTrustWatch records whether a pod has clustertrustbundles in a volume. It starts the
// watch with the first such pod, and stops it with the last. The lock is held.
func (a *API) updateTrustWatch(uid pod.UID, has bool) {
	t := &a.trustWatch
	if has {
		if t.all == nil {
			t.all = newCollection(leanTrustBundle, sameTrustBundle)
		}
		t.pods[uid] = true
		a.startTrustWatch()
		return
	}
	if delete(t.pods, uid); len(t.pods) > 0 {
		return
	}
	if t.stop != nil {
		t.stop()
	}
	t.stop, t.all = nil, nil
}

// startTrustWatch starts the watch if a pod needs it. The lock is held.
func (a *API) startTrustWatch() {
	t := &a.trustWatch
	if a.group == nil || t.stop != nil || t.all == nil {
		return
	}
	whole := a.group.Context()
	ctx, stop := context.WithCancel(whole)
	all := t.all
	t.stop = stop
	a.group.Go("watch of clustertrustbundles", func(context.Context) {
		defer stop()
		f := newFollower(a, "clustertrustbundles", &certificatesv1beta1.ClusterTrustBundle{}, a.trustReader(), "")
		f.sink = all.sink(func(string) {
			if ctx.Err() == nil {
				a.enqueueAll(whole, a.podsWithTrustBundles())
			}
		})
		f.run(ctx)
	})
}

func (a *API) podsWithTrustBundles() []pod.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return sorted(a.trustWatch.pods)
}

// watchedTrustBundles returns the bundles of the watch, or nil before its first list. Then the
// pods with trust bundles are enqueued when the list is there.
func (a *API) watchedTrustBundles() *collection[*certificatesv1beta1.ClusterTrustBundle] {
	a.mu.Lock()
	all := a.trustWatch.all
	a.mu.Unlock()
	if all == nil || all.recordMiss() {
		return nil
	}
	return all
}

func leanTrustBundle(given *certificatesv1beta1.ClusterTrustBundle) *certificatesv1beta1.ClusterTrustBundle {
	kept := *given
	leanMeta(&kept.ObjectMeta)
	return &kept
}

// sameTrustBundle reports whether two versions of a bundle have the same certificates and are
// selected by the same volumes.
func sameTrustBundle(a, b *certificatesv1beta1.ClusterTrustBundle) bool {
	return a.Spec == b.Spec && maps.Equal(a.Labels, b.Labels)
}

// trustBundlesPath is the API path of clustertrustbundles. Most servers do not have it yet.
const trustBundlesPath = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"

// trustReader reads clustertrustbundles. It makes requests of its own because the typed
// client for them is not part of Client.
type trustReader struct{ client rest.Interface }

func (a *API) trustReader() trustReader { return trustReader{a.Client.CertificatesV1().RESTClient()} }

func (r trustReader) Get(ctx context.Context, name string, o metav1.GetOptions) (*certificatesv1beta1.ClusterTrustBundle, error) {
	out := &certificatesv1beta1.ClusterTrustBundle{}
	err := r.client.Get().AbsPath(trustBundlesPath).Name(name).VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(out)
	return out, err
}

func (r trustReader) List(ctx context.Context, o metav1.ListOptions) (*certificatesv1beta1.ClusterTrustBundleList, error) {
	out := &certificatesv1beta1.ClusterTrustBundleList{}
	err := r.client.Get().AbsPath(trustBundlesPath).VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(out)
	return out, err
}

func (r trustReader) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.client.Get().AbsPath(trustBundlesPath).VersionedParams(&o, scheme.ParameterCodec).Watch(ctx)
}
