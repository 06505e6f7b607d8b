package objects

import (
	"context"
	"errors"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var errNoTrustBundles = errors.New("the API server has no clustertrustbundles (certificates.k8s.io/v1beta1): switch them on there, or take the bundle from a configMap")

// TrustBundles returns the clustertrustbundles that a volume selects: one by its name, or
// all of a signer that match a label selector. The list of a signer may be empty.
func (a *API) TrustBundles(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]string, error) {
	if s.Name != nil {
		one, err := a.trustBundle(ctx, *s.Name)
		if err != nil {
			return nil, err
		}
		return []string{one.Spec.TrustBundle}, nil
	}
	if s.SignerName == nil || s.LabelSelector == nil {
		return nil, nil // it selects nothing
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("read the labelSelector: %w", err)
	}
	all, err := a.trustBundlesOf(ctx, *s.SignerName)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range all {
		if b.Spec.SignerName == *s.SignerName && selector.Matches(labels.Set(b.Labels)) {
			out = append(out, b.Spec.TrustBundle)
		}
	}
	return out, nil
}

// trustBundle returns a bundle. If the watch has not brought it yet, it is read from the
// server: it may be as new as the pod.
func (a *API) trustBundle(ctx context.Context, name string) (*certificatesv1beta1.ClusterTrustBundle, error) {
	if known := a.watchedTrustBundles(); known != nil {
		if b, ok := known.get("", name); ok {
			return b, nil
		}
	}
	b, err := get(ctx, a.trustReader(), name)
	if err != nil {
		return nil, a.trustBundleError(ctx, ref{kind: trustBundle, name: name}, err)
	}
	return b, nil
}

// trustBundlesOf returns the bundles of a signer, and maybe those of others.
func (a *API) trustBundlesOf(ctx context.Context, signer string) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	if known := a.watchedTrustBundles(); known != nil {
		return known.in(""), nil
	}
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	list, err := a.trustReader().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
	if err != nil {
		return nil, a.trustBundleError(ctx, ref{kind: trustBundle, name: "of signer " + signer}, err)
	}
	out := make([]*certificatesv1beta1.ClusterTrustBundle, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// trustBundleError returns the error of reading a bundle. For a bundle that is not found, it
// finds out whether the server has that kind of object at all.
func (a *API) trustBundleError(ctx context.Context, r ref, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s: %w", r, err)
	}
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	if _, err := a.trustReader().List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		return errNoTrustBundles
	}
	return r.notFound("")
}
