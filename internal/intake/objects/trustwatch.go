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

// trustWatch is the watch of all clustertrustbundles. There is one for as long as a
// registered pod has any in a volume. API.mu guards it.
type trustWatch struct {
	pods map[pod.UID]bool
	all  *collection[*certificatesv1beta1.ClusterTrustBundle] // nil: no pod has any
	stop context.CancelFunc                                   // nil: there is no watch
}

// usesTrustBundles tells whether a pod has clustertrustbundles in a volume.
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

// updateTrustWatch takes note whether a pod has any. The lock is held.
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

// startTrustWatch begins to watch if somebody needs it. The lock is held.
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

// watchedTrustBundles returns what the watch has told; nil: nothing yet. Whoever finds nothing is
// told when there is something.
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

// sameTrustBundle tells whether the same is trusted, and the same volumes select it.
func sameTrustBundle(a, b *certificatesv1beta1.ClusterTrustBundle) bool {
	return a.Spec == b.Spec && maps.Equal(a.Labels, b.Labels)
}

// trustBundlesPath is where API servers have them, if they do: most do not yet.
const trustBundlesPath = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"

// trustReader reads them. It goes past the typed clients, which have only what every
// server has.
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
