package refs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
)

// trustBundles is where API servers have them, if they do: most do not yet.
const trustBundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"

var errNoTrustBundles = errors.New("the API server has no clustertrustbundles (certificates.k8s.io/v1beta1): switch them on there, or take the bundle from a configMap")

// TrustBundles returns the bundles of certificates that a volume asks for: one by its
// name, or all of a signer that have some labels. There may be none of a signer.
func (a *API) TrustBundles(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]string, error) {
	if s.Name != nil {
		var one certificatesv1beta1.ClusterTrustBundle
		if err := readTrust(ctx, a.trust().Name(*s.Name), &one); err != nil {
			return nil, a.noTrust(ctx, ref{kind: trustBundle, name: *s.Name}, err)
		}
		return []string{one.Spec.TrustBundle}, nil
	}
	if s.SignerName == nil || s.LabelSelector == nil {
		return nil, nil // it selects nothing
	}
	labels, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("read the labelSelector: %w", err)
	}
	var list certificatesv1beta1.ClusterTrustBundleList
	request := a.trust().Param("fieldSelector", fields.OneTermEqualSelector("spec.signerName", *s.SignerName).String()).Param("labelSelector", labels.String())
	if err := readTrust(ctx, request, &list); err != nil {
		return nil, a.noTrust(ctx, ref{kind: trustBundle, name: "of signer " + *s.SignerName}, err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Spec.TrustBundle)
	}
	return out, nil
}

// noTrust tells a bundle that is not there from a server that knows of none at all.
func (a *API) noTrust(ctx context.Context, r ref, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s: %w", r, err)
	}
	var some certificatesv1beta1.ClusterTrustBundleList
	if err := readTrust(ctx, a.trust().Param("limit", "1"), &some); apierrors.IsNotFound(err) {
		return errNoTrustBundles
	}
	return r.notFound("")
}

// trust begins a request for them. It goes past the typed clients, which have only what
// every server has.
func (a *API) trust() *rest.Request {
	return a.Client.CertificatesV1().RESTClient().Get().AbsPath(trustBundles).SetHeader("Accept", "application/json")
}

func readTrust(ctx context.Context, request *rest.Request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := request.Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
