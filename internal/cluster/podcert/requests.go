package podcert

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Requests is the client of PodCertificateRequests.
type Requests interface {
	Create(ctx context.Context, r *certificatesv1beta1.PodCertificateRequest) error
	List(ctx context.Context, o metav1.ListOptions) (*certificatesv1beta1.PodCertificateRequestList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// RESTRequests are the PodCertificateRequests of an API server. The typed client of the API group would
// add more to the program than these three requests.
type RESTRequests struct{ Client rest.Interface }

const (
	apiPath  = "/apis/certificates.k8s.io/v1beta1"
	resource = "podcertificaterequests"
)

// Create creates a request. It is encoded here: the client would encode it in the version of its own
// API group.
func (r RESTRequests) Create(ctx context.Context, request *certificatesv1beta1.PodCertificateRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return r.Client.Post().AbsPath(apiPath, "namespaces", url.PathEscape(request.Namespace), resource).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

// List lists the requests of all namespaces.
func (r RESTRequests) List(ctx context.Context, o metav1.ListOptions) (*certificatesv1beta1.PodCertificateRequestList, error) {
	out := &certificatesv1beta1.PodCertificateRequestList{}
	err := r.Client.Get().AbsPath(apiPath, resource).VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(out)
	return out, err
}

// Watch watches the requests of all namespaces.
func (r RESTRequests) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.Client.Get().AbsPath(apiPath, resource).VersionedParams(&o, scheme.ParameterCodec).Watch(ctx)
}

// ofNode selects the requests of a node: it may list and watch no others.
func ofNode(name string) string { return fields.OneTermEqualSelector("spec.nodeName", name).String() }

// nameSuffix is the number of random characters of the name of a request.
const nameSuffix = 10

// newRequest returns the request for a certificate of a pod. It has the name from the beginning, so that
// a decision on it can't come before its name is known here.
func newRequest(p *v1.Pod, s *v1.PodCertificateProjection, account *v1.ServiceAccount, node *v1.Node, proof []byte) *certificatesv1beta1.PodCertificateRequest {
	return &certificatesv1beta1.PodCertificateRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: certificatesv1beta1.SchemeGroupVersion.String(), Kind: "PodCertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: "req-" + utilrand.String(nameSuffix),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}},
		},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: s.SignerName,
			PodName:    p.Name, PodUID: p.UID,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: proof, UnverifiedUserAnnotations: s.UserAnnotations,
		},
	}
}

// explainRefusal returns the error of a request that the API server did not accept. After "not found", it
// finds out whether the server has that kind of object at all.
func explainRefusal(ctx context.Context, requests Requests, node string, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("create a PodCertificateRequest: %w", err)
	}
	if _, listErr := requests.List(ctx, metav1.ListOptions{FieldSelector: ofNode(node), Limit: 1}); apierrors.IsNotFound(listErr) {
		return errNotServed
	}
	return fmt.Errorf("create a PodCertificateRequest: %w", err)
}
